//! Compares the types of both crates: size, alignment, and the offset of every field that both
//! have.

use core::mem::offset_of;
use std::collections::BTreeSet;

use verbs_oracle::{LONGER, bindings};

/// Defines `compare`, which compares the named types of both crates, and `COMPARED`, their list.
macro_rules! layouts {
    ($($type:ident { $($field:ident),* $(,)? })*) => {
        const COMPARED: &[&str] = &[$(stringify!($type)),*];

        /// Returns descriptions of the differences, and the number of compared offsets.
        fn compare() -> (Vec<String>, usize) {
            let (mut differences, mut offsets) = (Vec::new(), 0);
            $(
                let ours = (size_of::<probeline_verbs_sys::$type>(), align_of::<probeline_verbs_sys::$type>());
                let theirs = (size_of::<ibverbs_sys::$type>(), align_of::<ibverbs_sys::$type>());
                let longer = LONGER.contains(&stringify!($type)) && theirs.0 > ours.0;
                if ours.1 != theirs.1 || (ours.0 != theirs.0 && !longer) {
                    let name = stringify!($type);
                    differences.push(format!("{name}: size, alignment {ours:?}, {theirs:?}"));
                }
                $(
                    let ours = offset_of!(probeline_verbs_sys::$type, $field);
                    let theirs = offset_of!(ibverbs_sys::$type, $field);
                    if ours != theirs {
                        let name = concat!(stringify!($type), "::", stringify!($field));
                        differences.push(format!("{name}: offset {ours}, {theirs}"));
                    }
                    offsets += 1;
                )*
            )*
            (differences, offsets)
        }
    };
}

// Types without fields are opaque here.
layouts! {
    ibv_gid { raw, global }
    ibv_gid__bindgen_ty_1 { subnet_prefix, interface_id }
    ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex }
    ibv_alloc_dm_attr {}
    ibv_dm {}
    ibv_device_attr {
        fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id,
        hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr,
        max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom,
        max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp,
        max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr,
        max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay,
        phys_port_cnt,
    }
    ibv_query_device_ex_input { comp_mask }
    ibv_odp_caps { general_caps, per_transport_caps }
    ibv_odp_caps__bindgen_ty_1 { rc_odp_caps, uc_odp_caps, ud_odp_caps }
    ibv_tso_caps { max_tso, supported_qpts }
    ibv_rss_caps {
        supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size,
        rx_hash_fields_mask, rx_hash_function,
    }
    ibv_packet_pacing_caps { qp_rate_limit_min, qp_rate_limit_max, supported_qpts }
    ibv_tm_caps { max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge }
    ibv_cq_moderation_caps { max_cq_count, max_cq_period }
    ibv_pci_atomic_caps { fetch_add, swap, compare_swap }
    ibv_device_attr_ex {
        orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock,
        device_cap_flags_ex, tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps,
        raw_packet_caps, tm_caps, cq_mod_caps, max_dm_size, pci_atomic_caps, xrc_odp_caps,
        phys_port_cnt_ex,
    }
    ibv_port_attr {
        state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr,
        qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout,
        init_type_reply, active_width, active_speed, phys_state, link_layer, flags, port_cap_flags2,
    }
    ibv_async_event { element, event_type }
    ibv_async_event__bindgen_ty_1 { cq, qp, srq, wq, port_num }
    ibv_wc__bindgen_ty_1 { imm_data, invalidated_rkey }
    ibv_mw_bind_info { mr, addr, length, mw_access_flags }
    ibv_pd { context, handle }
    ibv_td_init_attr {}
    ibv_td {}
    ibv_xrcd_init_attr {}
    ibv_xrcd {}
    ibv_mr { context, pd, addr, length, handle, lkey, rkey }
    ibv_mw {}
    ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
    ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
    ibv_srq_init_attr_ex {}
    ibv_wq_init_attr {}
    ibv_wq_attr {}
    ibv_rwq_ind_table {}
    ibv_rwq_ind_table_init_attr {}
    ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
    ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
    ibv_rx_hash_conf {}
    ibv_qp_init_attr_ex {
        qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd,
        create_flags, max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags,
    }
    ibv_qp_open_attr {}
    ibv_qp_attr {
        qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
        qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify,
        sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt,
        rnr_retry, alt_port_num, alt_timeout, rate_limit,
    }
    ibv_qp_rate_limit_attr {}
    ibv_data_buf { addr, length }
    ibv_sge { addr, length, lkey }
    ibv_send_wr {
        wr_id, next, sg_list, num_sge, opcode, send_flags, __bindgen_anon_1, wr, qp_type,
        __bindgen_anon_2,
    }
    ibv_send_wr__bindgen_ty_1 { imm_data, invalidate_rkey }
    ibv_send_wr__bindgen_ty_2 { rdma, atomic, ud }
    ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr, rkey }
    ibv_send_wr__bindgen_ty_2__bindgen_ty_2 { remote_addr, compare_add, swap, rkey }
    ibv_send_wr__bindgen_ty_2__bindgen_ty_3 { ah, remote_qpn, remote_qkey }
    ibv_send_wr__bindgen_ty_3 { xrc }
    ibv_send_wr__bindgen_ty_3__bindgen_ty_1 { remote_srqn }
    ibv_send_wr__bindgen_ty_4 { bind_mw, tso }
    ibv_send_wr__bindgen_ty_4__bindgen_ty_1 { mw, rkey, bind_info }
    ibv_send_wr__bindgen_ty_4__bindgen_ty_2 { hdr, hdr_sz, mss }
    ibv_recv_wr { wr_id, next, sg_list, num_sge }
    ibv_ops_wr {}
    ibv_ops_wr__bindgen_ty_1 { unexpected_cnt, handle, add }
    ibv_ops_wr__bindgen_ty_1__bindgen_ty_1 { recv_wr_id, sg_list, num_sge, tag, mask }
    ibv_mw_bind {}
    ibv_srq {}
    ibv_wq {}
    ibv_qp {
        context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond,
        events_completed,
    }
    ibv_qp_ex {
        qp_base, comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_bind_mw,
        wr_local_inv, wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm,
        wr_send_inv, wr_send_tso, wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data,
        wr_set_inline_data_list, wr_set_sge, wr_set_sge_list, wr_start, wr_complete, wr_abort,
        wr_atomic_write,
    }
    ibv_comp_channel { context, fd, refcnt }
    ibv_cq {
        context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
        async_events_completed,
    }
    ibv_cq_ex {}
    ibv_modify_cq_attr {}
    ibv_ah {}
    ibv_flow_attr {}
    ibv_flow {}
    ibv_flow_action {}
    ibv_flow_action_esp_attr {}
    _ibv_device_ops {}
    ibv_device { _ops, node_type, transport_type, name, dev_name, dev_path, ibdev_path }
    _compat_ibv_port_attr {}
    ibv_context_ops {
        _compat_query_device, _compat_query_port, _compat_alloc_pd, _compat_dealloc_pd,
        _compat_reg_mr, _compat_rereg_mr, _compat_dereg_mr, alloc_mw, bind_mw, dealloc_mw,
        _compat_create_cq, poll_cq, req_notify_cq, _compat_cq_event, _compat_resize_cq,
        _compat_destroy_cq, _compat_create_srq, _compat_modify_srq, _compat_query_srq,
        _compat_destroy_srq, post_srq_recv, _compat_create_qp, _compat_query_qp, _compat_modify_qp,
        _compat_destroy_qp, post_send, post_recv, _compat_create_ah, _compat_destroy_ah,
        _compat_attach_mcast, _compat_detach_mcast, _compat_async_event,
    }
    ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
    ibv_cq_init_attr_ex {}
    ibv_parent_domain_init_attr {}
    ibv_counters_init_attr {}
    ibv_counters {}
    ibv_counter_attach_attr {}
    ibv_values_ex {}
}

#[test]
fn layouts_agree() {
    let (differences, offsets) = compare();
    println!("{} types and {offsets} offsets compared", COMPARED.len());
    assert_eq!(differences, [""; 0]);
    assert!(offsets > 300, "{offsets}");
}

#[test]
fn no_type_is_left_out() {
    let compared: BTreeSet<&str> = COMPARED.iter().copied().collect();
    let left_out: Vec<&str> =
        bindings::types().map(|(name, _)| name).filter(|name| !compared.contains(name)).collect();
    // The test below compares ibv_wc. No published bindings have the others: tests/header.rs
    // compares them.
    assert_eq!(left_out, ["ibv_wc", "verbs_context", "verbs_ex_private"]);
}

/// The `ibv_wc` of `ibverbs_sys` is written by hand, and its first fields are private. The test
/// writes this project's `ibv_wc` and reads it through the accessors of `ibverbs_sys`.
#[test]
fn a_completion_has_the_same_fields_in_both_crates() {
    assert_eq!(size_of::<probeline_verbs_sys::ibv_wc>(), size_of::<ibverbs_sys::ibv_wc>());
    assert_eq!(align_of::<probeline_verbs_sys::ibv_wc>(), align_of::<ibverbs_sys::ibv_wc>());
    let ours = probeline_verbs_sys::ibv_wc {
        wr_id: 0x0102_0304_0506_0708,
        status: probeline_verbs_sys::IBV_WC_REM_ACCESS_ERR,
        opcode: probeline_verbs_sys::IBV_WC_COMP_SWAP,
        vendor_err: 0x1112_1314,
        byte_len: 0x2122_2324,
        __bindgen_anon_1: probeline_verbs_sys::ibv_wc__bindgen_ty_1 { imm_data: 0x3132_3334 },
        qp_num: 0x4142_4344,
        src_qp: 0x5152_5354,
        wc_flags: probeline_verbs_sys::IBV_WC_WITH_IMM,
        pkey_index: 0x6162,
        slid: 0x7172,
        sl: 0x81,
        dlid_path_bits: 0x91,
    };
    // SAFETY: both are C structs of integers with equal sizes, checked above.
    let theirs: ibverbs_sys::ibv_wc = unsafe { core::mem::transmute(ours) };
    assert_eq!(theirs.wr_id(), ours.wr_id);
    assert_eq!(theirs.error(), Some((ours.status, ours.vendor_err)));
    assert_eq!(theirs.opcode(), ours.opcode);
    assert_eq!(theirs.len(), ours.byte_len as usize);
    assert_eq!(theirs.imm_data, 0x3132_3334);
    assert_eq!((theirs.qp_num, theirs.src_qp), (ours.qp_num, ours.src_qp));
    assert_eq!(theirs.wc_flags.0, ours.wc_flags);
    assert_eq!((theirs.pkey_index, theirs.slid), (ours.pkey_index, ours.slid));
    assert_eq!((theirs.sl, theirs.dlid_path_bits), (ours.sl, ours.dlid_path_bits));
}
