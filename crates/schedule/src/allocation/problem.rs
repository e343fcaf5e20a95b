//! A request in the form that the algorithms work on: demand in floating point, both ways round.

use super::request::Request;
use std::cell::OnceCell;

/// Relative distance within which a time equals its bound: the two are summed in different orders.
pub(super) const ROUNDING: f64 = 1e-12;

/// Demand below 2^53 bytes is exact in `f64`, and so are its sums; so equally good results have
/// makespans that are equal to the bit, which is what makes "ties" a meaningful word.
#[derive(Clone)]
pub(super) struct Problem<'a> {
    pub request: Request<'a>,
    /// Number of servers.
    pub n: usize,
    /// Bytes from row to column, the diagonal zero.
    pub tx: Vec<f64>,
    /// The transpose: bytes that the row receives from the column.
    pub rx: Vec<f64>,
    /// Bytes per second of one circuit.
    pub circuit: f64,
    /// Bytes per second of each server on the EPS.
    pub eps: Vec<f64>,
    /// Bytes that each server sends and receives, and the bounds, once they were needed.
    sums: OnceCell<Vec<[f64; 2]>>,
    port_bound: OnceCell<f64>,
    pub(super) line_bound: OnceCell<f64>,
}

impl<'a> Problem<'a> {
    pub(super) fn new(request: &Request<'a>) -> Self {
        let n = request.servers;
        let mut tx = vec![0.0; n * n];
        let mut rx = vec![0.0; n * n];
        for a in 0..n {
            for b in (0..n).filter(|&b| b != a) {
                let bytes = request.demand[a * n + b] as f64;
                tx[a * n + b] = bytes;
                rx[b * n + a] = bytes;
            }
        }
        let circuit = request.circuit_rate.0 as f64 / 8.0;
        let eps = (0..n).map(|server| request.eps_rates.of(server).0 as f64 / 8.0).collect();
        Self {
            request: *request,
            n,
            tx,
            rx,
            circuit,
            eps,
            sums: OnceCell::new(),
            port_bound: OnceCell::new(),
            line_bound: OnceCell::new(),
        }
    }

    /// Whether this pair may have circuits.
    pub(super) fn may_join(&self, a: usize, b: usize) -> bool {
        a != b && self.request.allowed.is_none_or(|allowed| allowed[a * self.n + b])
    }

    /// Both directions of a pair, the larger: circuits are duplex.
    pub(super) fn larger(&self, a: usize, b: usize) -> f64 {
        let cell = a * self.n + b;
        self.tx[cell].max(self.rx[cell])
    }

    /// Both directions of a pair, added: what Algorithm 1 of the MixNet paper looks at.
    pub(super) fn sum(&self, a: usize, b: usize) -> f64 {
        let cell = a * self.n + b;
        self.tx[cell] + self.rx[cell]
    }

    /// Bytes that each server sends, and receives.
    pub(super) fn sums(&self) -> &[[f64; 2]] {
        self.sums.get_or_init(|| {
            let row = |server: usize| server * self.n..(server + 1) * self.n;
            let sum = |bytes: &[f64], server: usize| bytes[row(server)].iter().sum();
            (0..self.n).map(|server| [sum(&self.tx, server), sum(&self.rx, server)]).collect()
        })
    }

    /// See [`super::port_bound`].
    pub(super) fn port_bound(&self) -> f64 {
        *self.port_bound.get_or_init(|| self.find_port_bound())
    }

    fn find_port_bound(&self) -> f64 {
        let mut bound = 0.0_f64;
        for server in 0..self.n {
            let line = server * self.n..(server + 1) * self.n;
            let sent: f64 = self.tx[line.clone()].iter().sum();
            let received: f64 = self.rx[line].iter().sum();
            let bytes = sent.max(received);
            if bytes > 0.0 {
                let rate = self.eps[server] + f64::from(self.request.ports[server]) * self.circuit;
                bound = bound.max(bytes / rate);
            }
        }
        bound
    }

    /// Whether nothing can be faster than this: it is the port bound, but for rounding.
    pub(super) fn reaches_bound(&self, time: f64) -> bool {
        time <= self.port_bound() * (1.0 + ROUNDING)
    }

    /// Circuits that are there already, as far as ports and allowed pairs admit them.
    pub(super) fn adopt(&self, count: &[u16]) -> Circuits {
        let mut circuits = self.no_circuits();
        for a in 0..self.n {
            for b in a + 1..self.n {
                for _ in 0..count[a * self.n + b] {
                    if circuits.has_room(a, b) && self.may_join(a, b) {
                        circuits.add(a, b);
                    }
                }
            }
        }
        circuits
    }

    /// An empty set of circuits.
    pub(super) fn no_circuits(&self) -> Circuits {
        let free = self.request.ports.to_vec();
        let open = free.iter().filter(|&&ports| ports > 0).count();
        Circuits { n: self.n, count: vec![0; self.n * self.n], free, open }
    }
}

/// Circuits under construction: never more than the ports allow.
#[derive(Clone)]
pub(super) struct Circuits {
    n: usize,
    /// Circuits of each pair, symmetric.
    pub count: Vec<u16>,
    /// Ports of each server that are still free.
    pub free: Vec<u32>,
    /// Servers with a free port.
    open: usize,
}

impl Circuits {
    /// Whether both ends have a free port.
    pub(super) fn has_room(&self, a: usize, b: usize) -> bool {
        self.free[a] > 0 && self.free[b] > 0
    }

    /// Whether no further circuit is possible, whichever pairs are allowed.
    pub(super) fn is_full(&self) -> bool {
        self.open < 2
    }

    /// Circuits of this pair.
    pub(super) fn of(&self, a: usize, b: usize) -> u16 {
        self.count[a * self.n + b]
    }

    /// Adds one circuit.
    pub(super) fn add(&mut self, a: usize, b: usize) {
        for server in [a, b] {
            self.free[server] -= 1;
            self.open -= usize::from(self.free[server] == 0);
        }
        self.count[a * self.n + b] += 1;
        self.count[b * self.n + a] += 1;
    }

    /// Takes one circuit away.
    pub(super) fn remove(&mut self, a: usize, b: usize) {
        for server in [a, b] {
            self.open += usize::from(self.free[server] == 0);
            self.free[server] += 1;
        }
        self.count[a * self.n + b] -= 1;
        self.count[b * self.n + a] -= 1;
    }
}
