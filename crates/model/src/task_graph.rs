//! The task graph of one training step, as compact programs.
//!
//! A *worker* is the set of GPUs of one server that serve one EP group. Workers are laid out as
//! `[stage][replica][member]`; the workers of one `(stage, replica)` form an EP group. All workers
//! of a stage run the same *program*, a list of tasks in the order in which the framework issues
//! them (1F1B or interleaved, micro-batches expanded). A task starts when its predecessor in the
//! program is done; collectives, receives and waits also join other workers. So the edges of the
//! graph are implied, and a step of 32,768 GPUs is a few thousand tasks and the token counts.

use crate::Invalid;
use crate::units::Duration;

/// Index of a worker: `(stage * replicas + replica) * members + member`.
pub type WorkerId = u32;

/// Index of a token block within its EP group: `moe_layer_in_stage * micro_batches + micro_batch`.
pub type BlockId = u32;

/// Where the time of a task is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// Attention and its projections and norms.
    Attention = 0,
    /// The gate (router) and token permutation.
    Gate = 1,
    /// Routed and shared experts.
    Expert = 2,
    /// Feed-forward of dense layers.
    DenseFfn = 3,
    /// Embedding, output projection and loss.
    Head = 4,
    /// Optimiser update.
    Optimizer = 5,
    /// Tensor-parallel (and sequence- and expert-tensor-parallel) collectives.
    Tp = 6,
    /// Dispatch and combine.
    Ep = 7,
    /// Pipeline sends.
    Pp = 8,
    /// Data-parallel gradient and parameter collectives.
    Dp = 9,
    /// Context-parallel exchanges.
    Cp = 10,
    /// Time in which an all-to-all waits for circuits.
    Reconfiguration = 11,
    /// Waiting for the pipeline (the bubble).
    Bubble = 12,
}

impl Category {
    /// Every category, in order of its number.
    pub const ALL: [Self; 13] = [
        Self::Attention,
        Self::Gate,
        Self::Expert,
        Self::DenseFfn,
        Self::Head,
        Self::Optimizer,
        Self::Tp,
        Self::Ep,
        Self::Pp,
        Self::Dp,
        Self::Cp,
        Self::Reconfiguration,
        Self::Bubble,
    ];

    /// The category with this number.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_u8(number: u8) -> Result<Self, Invalid> {
        Self::ALL.get(usize::from(number)).copied().ok_or_else(|| {
            Invalid::new(format!("task category {number}: expected 0 to {}", Self::ALL.len() - 1))
        })
    }

    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Gate => "gate",
            Self::Expert => "expert",
            Self::DenseFfn => "dense_ffn",
            Self::Head => "head",
            Self::Optimizer => "optimizer",
            Self::Tp => "tp",
            Self::Ep => "ep",
            Self::Pp => "pp",
            Self::Dp => "dp",
            Self::Cp => "cp",
            Self::Reconfiguration => "reconfiguration",
            Self::Bubble => "bubble",
        }
    }
}

/// Forward or backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Forward pass.
    Forward,
    /// Backward pass.
    Backward,
}

/// Which ring collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingKind {
    /// 2 (n-1)/n of the buffer crosses each ring edge.
    AllReduce,
    /// (n-1)/n of the buffer crosses each ring edge.
    ReduceScatter,
    /// (n-1)/n of the buffer crosses each ring edge.
    AllGather,
}

/// What a task does. Sizes are per worker unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Occupies the worker's GPUs.
    Compute {
        /// How long.
        duration: Duration,
    },
    /// Expert computation on a block: the duration is looked up per worker in
    /// [`TokenBlocks::expert_forward`] or [`TokenBlocks::expert_backward`].
    Expert {
        /// Token block.
        block: BlockId,
        /// Which table.
        pass: Pass,
    },
    /// A collective inside the server, over NVSwitch.
    Local {
        /// Bytes that each GPU sends (and receives).
        bytes_per_gpu: u64,
    },
    /// A collective of the expert-TP ranks inside the server on the routed copies of a block: as
    /// `Local`, but its bytes are looked up per worker in [`TokenBlocks::expert_tp_per_gpu`] and
    /// [`TokenBlocks::expert_tp_total`].
    ExpertTp {
        /// Token block.
        block: BlockId,
    },
    /// Dispatch or combine of a block over the EP group; joins all members.
    AllToAll {
        /// Token block.
        block: BlockId,
        /// Combine carries the transposed token counts of dispatch.
        transposed: bool,
        /// Whether the demand is unknown before this task starts (dispatch of the forward pass).
        first: bool,
        /// Forward or backward.
        pass: Pass,
        /// Bytes per token copy.
        bytes_per_token: u64,
    },
    /// Asynchronous send to the same (replica, member) of another stage.
    Send {
        /// Receiving stage.
        peer_stage: u32,
        /// Matches the receiver's tag; unique per (sender, step).
        tag: u32,
        /// Bytes of this worker.
        bytes: u64,
    },
    /// Waits until the matching send has arrived.
    Receive {
        /// Sending stage.
        peer_stage: u32,
        /// The sender's tag.
        tag: u32,
    },
    /// Starts a ring collective over the worker's group in a scope; does not wait.
    Ring {
        /// Which collective.
        kind: RingKind,
        /// Index into [`TaskGraph::scopes`].
        scope: u32,
        /// Handle for `Wait`; unique in the program. Members join by equal handle.
        handle: u32,
        /// Buffer size that crosses servers, per worker, after the reduction inside the server.
        bytes: u64,
        /// Bytes that each GPU moves over NVSwitch for the stages inside the server (all of them).
        local_bytes_per_gpu: u64,
    },
    /// Waits for a ring collective started before.
    Wait {
        /// The collective's handle.
        handle: u32,
    },
}

/// One task of a stage's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// What it does.
    pub kind: TaskKind,
    /// Where its time is charged.
    pub category: Category,
    /// Layer of the model (`u16::MAX` where none), for the timeline.
    pub layer: u16,
    /// Micro-batch (`u16::MAX` where none), for the timeline.
    pub micro_batch: u16,
}

/// The tasks of one stage, in issue order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StageProgram {
    /// Tasks in issue order.
    pub tasks: Vec<Task>,
}

/// Which worker sits where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Pipeline stages.
    pub stages: u32,
    /// EP groups per stage (expert replicas times context-parallel ranks).
    pub replicas: u32,
    /// Workers (servers) per EP group.
    pub members: u32,
    /// GPUs per worker.
    pub gpus_per_worker: u32,
    /// Server of each worker.
    pub worker_server: Vec<u32>,
}

impl Layout {
    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.stages as usize * self.replicas as usize * self.members as usize
    }

    /// The worker at this place.
    pub fn worker(&self, stage: u32, replica: u32, member: u32) -> WorkerId {
        (stage * self.replicas + replica) * self.members + member
    }

    /// The EP group `(stage, replica)` of a worker.
    pub fn group_of(&self, worker: WorkerId) -> u32 {
        worker / self.members
    }

    /// The stage of a worker.
    pub fn stage_of(&self, worker: WorkerId) -> u32 {
        worker / (self.members * self.replicas)
    }
}

/// A partition of (some) workers into rings, for collectives across servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Name in results, such as `dp-dense` or `dp-expert`.
    pub name: String,
    /// Ring `g` is `workers[offsets[g]..offsets[g + 1]]`, in ring order.
    pub offsets: Vec<u32>,
    /// Workers in ring order.
    pub workers: Vec<WorkerId>,
}

/// Token counts between the members of each EP group, and the expert times that follow from them.
///
/// All arrays are indexed `[group][block]...`, row-major, with `blocks` blocks per group (stages
/// with fewer MoE layers leave the rest zero).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenBlocks {
    /// Blocks per group.
    pub blocks: u32,
    /// Dispatch token copies from member to member `[group][block][members][members]`. The
    /// diagonal counts copies between *different* GPUs of the member; what stays on a GPU is in no
    /// matrix. When a token of TP degree t is split over t GPUs, it is still one copy.
    pub tokens: Vec<u32>,
    /// EP ranks per member for the finer matrix below; 0 where it is absent.
    pub ranks_per_member: u32,
    /// Optional rank x rank dispatch counts `[group][block][ranks][ranks]`, for fabrics that move
    /// data NIC by NIC (`flat`, `rail`). Empty where one member is one rank.
    pub rank_tokens: Vec<u32>,
    /// Expert time of the forward pass `[group][block][members]`, the slowest GPU of the member.
    pub expert_forward: Vec<Duration>,
    /// Expert time of the backward pass `[group][block][members]`.
    pub expert_backward: Vec<Duration>,
    /// Bytes that each GPU of the member's busiest EP rank sends in one expert-TP collective
    /// `[group][block][members]`: they say how long it takes. Empty without such collectives.
    pub expert_tp_per_gpu: Vec<u64>,
    /// Bytes that all GPUs of the member send in it `[group][block][members]`, for the books.
    pub expert_tp_total: Vec<u64>,
}

/// Everything that one step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskGraph {
    /// Who sits where.
    pub layout: Layout,
    /// One program per stage.
    pub programs: Vec<StageProgram>,
    /// Ring scopes.
    pub scopes: Vec<Scope>,
    /// Token counts.
    pub blocks: TokenBlocks,
}

impl TaskGraph {
    /// Checks that every index is in range and every array has the stated size.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        let layout = &self.layout;
        let workers = layout.workers();
        expect("layout.worker_server", layout.worker_server.len(), workers)?;
        expect("programs", self.programs.len(), layout.stages as usize)?;
        let groups = layout.stages as usize * layout.replicas as usize;
        let cells = groups * self.blocks.blocks as usize;
        let members = layout.members as usize;
        expect("blocks.tokens", self.blocks.tokens.len(), cells * members * members)?;
        expect("blocks.expert_forward", self.blocks.expert_forward.len(), cells * members)?;
        expect("blocks.expert_backward", self.blocks.expert_backward.len(), cells * members)?;
        if self.moves_expert_tp() {
            let (busiest, total) = (&self.blocks.expert_tp_per_gpu, &self.blocks.expert_tp_total);
            expect("blocks.expert_tp_per_gpu", busiest.len(), cells * members)?;
            expect("blocks.expert_tp_total", total.len(), cells * members)?;
        }
        if !self.blocks.rank_tokens.is_empty() {
            let ranks = members * self.blocks.ranks_per_member as usize;
            expect("blocks.rank_tokens", self.blocks.rank_tokens.len(), cells * ranks * ranks)?;
        }
        for (index, scope) in self.scopes.iter().enumerate() {
            validate_scope(index, scope, workers)?;
        }
        for (stage, program) in self.programs.iter().enumerate() {
            for (index, task) in program.tasks.iter().enumerate() {
                self.validate_task(task)
                    .map_err(|Invalid(e)| Invalid(format!("stage {stage}, task {index}: {e}")))?;
            }
        }
        Ok(())
    }

    /// Whether there are expert-TP collectives, or sizes for them.
    fn moves_expert_tp(&self) -> bool {
        let is_one = |task: &Task| matches!(task.kind, TaskKind::ExpertTp { .. });
        !self.blocks.expert_tp_per_gpu.is_empty()
            || !self.blocks.expert_tp_total.is_empty()
            || self.programs.iter().any(|program| program.tasks.iter().any(is_one))
    }

    fn validate_task(&self, task: &Task) -> Result<(), Invalid> {
        let below = |what: &str, value: u32, limit: usize| {
            if (value as usize) < limit {
                Ok(())
            } else {
                Err(Invalid(format!("{what} {value} is not below {limit}")))
            }
        };
        match task.kind {
            TaskKind::Expert { block, .. }
            | TaskKind::ExpertTp { block }
            | TaskKind::AllToAll { block, .. } => {
                below("block", block, self.blocks.blocks as usize)
            }
            TaskKind::Send { peer_stage, .. } | TaskKind::Receive { peer_stage, .. } => {
                below("peer stage", peer_stage, self.layout.stages as usize)
            }
            TaskKind::Ring { scope, .. } => below("scope", scope, self.scopes.len()),
            TaskKind::Compute { .. } | TaskKind::Local { .. } | TaskKind::Wait { .. } => Ok(()),
        }
    }
}

fn expect(name: &str, found: usize, expected: usize) -> Result<(), Invalid> {
    if found == expected {
        Ok(())
    } else {
        Err(Invalid(format!("{name} has {found} entries, expected {expected}")))
    }
}

fn validate_scope(index: usize, scope: &Scope, workers: usize) -> Result<(), Invalid> {
    let ordered = scope.offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let starts = scope.offsets.first() == Some(&0);
    let ends = scope.offsets.last().map(|&end| end as usize) == Some(scope.workers.len());
    if !(ordered && starts && ends) {
        return Err(Invalid(format!("scope {index}: offsets do not partition its workers")));
    }
    let mut seen = vec![false; workers];
    for &worker in &scope.workers {
        match seen.get_mut(worker as usize) {
            Some(flag) if !*flag => *flag = true,
            Some(_) => return Err(Invalid(format!("scope {index}: worker {worker} twice"))),
            None => return Err(Invalid(format!("scope {index}: no worker {worker}"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> TaskGraph {
        TaskGraph {
            layout: Layout {
                stages: 1,
                replicas: 1,
                members: 2,
                gpus_per_worker: 8,
                worker_server: vec![0, 1],
            },
            programs: vec![StageProgram::default()],
            scopes: vec![Scope { name: "dp".into(), offsets: vec![0, 2], workers: vec![0, 1] }],
            blocks: TokenBlocks {
                blocks: 1,
                tokens: vec![0; 4],
                expert_forward: vec![Duration::ZERO; 2],
                expert_backward: vec![Duration::ZERO; 2],
                ..TokenBlocks::default()
            },
        }
    }

    #[test]
    fn a_well_formed_graph_passes() {
        assert_eq!(graph().validate(), Ok(()));
    }

    #[test]
    fn a_wrong_size_is_named() {
        let mut wrong = graph();
        wrong.blocks.tokens.pop();
        let text = wrong.validate().unwrap_err().to_string();
        assert_eq!(text, "blocks.tokens has 3 entries, expected 4");
    }

    #[test]
    fn a_worker_may_be_in_one_ring_of_a_scope_only() {
        let mut wrong = graph();
        wrong.scopes[0].workers = vec![0, 0];
        assert_eq!(wrong.validate().unwrap_err().to_string(), "scope 0: worker 0 twice");
    }

    fn task(kind: TaskKind, category: Category) -> Task {
        Task { kind, category, layer: 0, micro_batch: 0 }
    }

    #[test]
    fn a_task_beyond_the_blocks_is_named() {
        let expert = TaskKind::Expert { block: 7, pass: Pass::Forward };
        for kind in [expert, TaskKind::ExpertTp { block: 7 }] {
            let mut wrong = graph();
            wrong.blocks.expert_tp_per_gpu = vec![0; 2];
            wrong.blocks.expert_tp_total = vec![0; 2];
            wrong.programs[0].tasks.push(task(kind, Category::Expert));
            let text = wrong.validate().unwrap_err().to_string();
            assert_eq!(text, "stage 0, task 0: block 7 is not below 1");
        }
    }

    #[test]
    fn expert_tp_needs_its_sizes() {
        let mut wrong = graph();
        wrong.programs[0].tasks.push(task(TaskKind::ExpertTp { block: 0 }, Category::Tp));
        let text = wrong.validate().unwrap_err().to_string();
        assert_eq!(text, "blocks.expert_tp_per_gpu has 0 entries, expected 2");
        wrong.blocks.expert_tp_per_gpu = vec![5, 9];
        wrong.blocks.expert_tp_total = vec![40];
        let text = "blocks.expert_tp_total has 1 entries, expected 2";
        assert_eq!(wrong.validate().unwrap_err().to_string(), text);
        wrong.programs[0].tasks.clear();
        assert_eq!(wrong.validate().unwrap_err().to_string(), text);
        wrong.blocks.expert_tp_total.push(72);
        wrong.programs[0].tasks.push(task(TaskKind::ExpertTp { block: 0 }, Category::Tp));
        assert_eq!(wrong.validate(), Ok(()));
    }

    #[test]
    fn categories_round_trip() {
        for category in Category::ALL {
            assert_eq!(Category::from_u8(category as u8), Ok(category));
        }
        assert!(Category::from_u8(13).is_err());
    }
}
