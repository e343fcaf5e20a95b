//! Round robin among the flows of a NIC.

const NONE: u32 = u32::MAX;
const OUT: u32 = u32::MAX - 1;

/// Per NIC a circle of flows that have something to send.
#[derive(Debug, Clone, Default)]
pub struct ActiveFlows {
    /// First and last flow of each NIC.
    ends: Vec<[u32; 2]>,
    next: Vec<u32>,
}

impl ActiveFlows {
    /// Circles for so many NICs.
    pub fn new(nics: usize) -> Self {
        Self { ends: vec![[NONE; 2]; nics], next: Vec::new() }
    }

    /// The flow whose turn it is.
    #[inline]
    pub fn first(&self, nic: u32) -> Option<u32> {
        let [head, _] = self.ends[nic as usize];
        (head != NONE).then_some(head)
    }

    /// Puts a flow last, unless it is in already.
    #[inline]
    pub fn add(&mut self, nic: u32, flow: u32) {
        if flow as usize >= self.next.len() {
            self.next.resize(flow as usize + 1, OUT);
        }
        if self.next[flow as usize] != OUT {
            return;
        }
        self.next[flow as usize] = NONE;
        let ends = &mut self.ends[nic as usize];
        if ends[0] == NONE {
            ends[0] = flow;
        } else {
            self.next[ends[1] as usize] = flow;
        }
        ends[1] = flow;
    }

    /// Takes the first flow out.
    #[inline]
    pub fn remove_first(&mut self, nic: u32) -> Option<u32> {
        let ends = &mut self.ends[nic as usize];
        let flow = ends[0];
        if flow == NONE {
            return None;
        }
        ends[0] = self.next[flow as usize];
        self.next[flow as usize] = OUT;
        Some(flow)
    }

    /// Puts the first flow last.
    #[inline]
    pub fn rotate(&mut self, nic: u32) {
        let ends = &mut self.ends[nic as usize];
        if ends[0] != NONE && ends[0] != ends[1] {
            let flow = ends[0];
            ends[0] = self.next[flow as usize];
            self.next[ends[1] as usize] = flow;
            self.next[flow as usize] = NONE;
            ends[1] = flow;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_turns() {
        let mut active = ActiveFlows::new(2);
        for flow in [4, 2, 4, 7] {
            active.add(1, flow);
        }
        assert_eq!(active.first(0), None);
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(active.first(1).unwrap());
            active.rotate(1);
        }
        assert_eq!(order, [4, 2, 7, 4]);
        assert_eq!(active.remove_first(1), Some(2));
        active.add(1, 2);
        let rest: Vec<u32> = std::iter::from_fn(|| active.remove_first(1)).collect();
        assert_eq!(rest, [7, 4, 2]);
        active.rotate(1);
        assert_eq!(active.first(1), None);
    }
}
