//! Queue pairs: their states and their requests.

use std::collections::VecDeque;

use probeline_verbs_sys::*;

/// The maximum number of words of an inline request.
pub(super) const INLINE_WORDS: usize = 32;

/// The fields of a posted request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) queue_pair: u32,
    /// The number of the queue pair's ibv_post_send call that posted the request.
    pub(crate) call: u64,
    pub(crate) id: u64,
    pub(crate) opcode: ibv_wr_opcode,
    pub(crate) flags: u32,
    /// Address, bytes, key.
    pub(crate) local: (u64, u32, u32),
    pub(crate) remote: (u64, u32),
    /// The compare or add value of an atomic, and the swap value.
    pub(crate) operands: (u64, u64),
}

/// A posted request that has not been executed.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) seen: Seen,
    /// Its inline data, if it has any.
    pub(super) carried: Option<[u64; INLINE_WORDS]>,
}

/// A queue pair.
pub(super) struct Pair {
    pub(super) number: u32,
    pub(super) machine: usize,
    pub(super) device: usize,
    pub(super) domain: u32,
    pub(super) completions: u32,
    pub(super) state: ibv_qp_state,
    pub(super) capacity: u32,
    pub(super) inline_bytes: u32,
    pub(super) calls: u64,
    /// The requests that have not been executed, oldest first.
    pub(super) waiting: VecDeque<Request>,
    /// The number of send queue entries in use. Polling a completion frees the entries of its
    /// request and of all earlier ones.
    pub(super) outstanding: u32,
    /// The number of requests that completed without a completion since the last one with one.
    pub(super) silent: u32,
    /// The number of polls for which its oldest request has had no responder.
    pub(super) tries: u32,
    /// The attributes that its transitions have set.
    pub(super) attr: ibv_qp_attr,
}

/// Returns the required and the optional attributes of a transition; `None` if it is not allowed.
fn masks(from: ibv_qp_state, to: ibv_qp_state) -> Option<(u32, u32)> {
    let masks = match (from, to) {
        (_, IBV_QPS_ERR) => (0, 0),
        (IBV_QPS_RESET, IBV_QPS_INIT) => (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0),
        (IBV_QPS_INIT, IBV_QPS_RTR) => (
            IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER,
            IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
        ),
        (IBV_QPS_RTR, IBV_QPS_RTS) => (
            IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_SQ_PSN
                | IBV_QP_MAX_QP_RD_ATOMIC,
            IBV_QP_CUR_STATE
                | IBV_QP_ALT_PATH
                | IBV_QP_ACCESS_FLAGS
                | IBV_QP_MIN_RNR_TIMER
                | IBV_QP_PATH_MIG_STATE,
        ),
        _ => return None,
    };
    Some((masks.0 | IBV_QP_STATE, masks.1))
}

impl Pair {
    /// Checks a transition as the kernel does (`ib_modify_qp_is_ok`), and performs it.
    pub(super) fn modify(
        &mut self,
        device: &super::Device,
        attr: &ibv_qp_attr,
        mask: u32,
    ) -> Result<(), String> {
        let to = attr.qp_state;
        let Some((must, may)) = masks(self.state, to) else {
            return Err(format!("from state {} to {to}", self.state));
        };
        if mask & must != must || mask & !(must | may) != 0 {
            return Err(format!("mask {mask:#x} for state {to}, which wants {must:#x}"));
        }
        let right = match to {
            IBV_QPS_INIT => attr.port_num == 1,
            IBV_QPS_RTR => self.right_for_receiving(device, attr),
            IBV_QPS_RTS => {
                attr.timeout < 32
                    && attr.retry_cnt < 8
                    && attr.rnr_retry < 8
                    && attr.sq_psn < 1 << 24
                    && i32::from(attr.max_rd_atomic) <= device.reads
            }
            _ => true,
        };
        if !right {
            return Err(format!("values for state {to}"));
        }
        self.take(attr, to);
        Ok(())
    }

    fn right_for_receiving(&self, device: &super::Device, attr: &ibv_qp_attr) -> bool {
        let route = &attr.ah_attr;
        let addressed = if device.ethernet {
            let index = usize::from(route.grh.sgid_index);
            route.is_global == 1 && device.gid(index).is_some() && route.grh.hop_limit > 0
        } else {
            route.dlid != 0
        };
        addressed
            && route.port_num == 1
            && (1..=device.mtu).contains(&attr.path_mtu)
            && attr.rq_psn < 1 << 24
            && i32::from(attr.max_dest_rd_atomic) <= device.reads
    }

    fn take(&mut self, attr: &ibv_qp_attr, to: ibv_qp_state) {
        self.state = to;
        match to {
            IBV_QPS_INIT => self.attr.qp_access_flags = attr.qp_access_flags,
            IBV_QPS_RTR => {
                let access = self.attr.qp_access_flags;
                self.attr = *attr;
                self.attr.qp_access_flags = access;
            }
            IBV_QPS_RTS => {
                self.attr.sq_psn = attr.sq_psn;
                self.attr.max_rd_atomic = attr.max_rd_atomic;
            }
            _ => {}
        }
    }

    /// Returns whether the queue pair and `peer` are connected to each other, and `peer` responds.
    pub(super) fn reaches(&self, peer: &Self, device: &super::Device) -> bool {
        let route = &self.attr.ah_attr;
        let index = usize::from(peer.attr.ah_attr.grh.sgid_index);
        // SAFETY: every field of the union is 16 bytes.
        let to = unsafe { route.grh.dgid.raw };
        let addressed = !device.ethernet || device.gid(index).is_some_and(|(gid, _)| gid == to);
        matches!(peer.state, IBV_QPS_RTR | IBV_QPS_RTS)
            && peer.attr.dest_qp_num == self.number
            && peer.attr.rq_psn == self.attr.sq_psn
            && peer.attr.path_mtu == self.attr.path_mtu
            && addressed
    }
}
