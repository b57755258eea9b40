/*
 * A stand-in device with a minimal data path, so that most instructions are the caller's.
 *
 * It executes requests when they are posted, on the memory at their addresses, without checks.
 * A READ copies only its first word. Completions are reported in the order of posting.
 */
#include "device.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_query_port
#undef ibv_reg_mr

/* The capacity of the completion queue: more than any loop has outstanding, and a power of two. */
#define CQ_CAPACITY 1024

static uint64_t completed[CQ_CAPACITY];
static uint32_t posted, polled;

static int device_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp;
	(void)bad_wr;
	for (; wr; wr = wr->next) {
		uint64_t *local = (uint64_t *)(uintptr_t)wr->sg_list->addr;
		uint64_t *remote = (uint64_t *)(uintptr_t)wr->wr.rdma.remote_addr;
		uint64_t old = *remote;

		if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			*remote = old + wr->wr.atomic.compare_add;
		else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP && old == wr->wr.atomic.compare_add)
			*remote = wr->wr.atomic.swap;
		*local = old;
		completed[posted++ % CQ_CAPACITY] = wr->wr_id;
	}
	return 0;
}

static int device_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int found = 0;

	(void)cq;
	for (; found < num_entries && polled != posted; found++) {
		wc[found].wr_id = completed[polled++ % CQ_CAPACITY];
		wc[found].status = IBV_WC_SUCCESS;
	}
	return found;
}

static struct ibv_context context = {
	.ops = { .post_send = device_post_send, .poll_cq = device_poll_cq },
};
static struct ibv_device device = { .name = "cost0" };

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
	*num_devices = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *named)
{
	return named->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *opened)
{
	context.device = opened;
	return &context;
}

int ibv_close_device(struct ibv_context *closed)
{
	(void)closed;
	return 0;
}

int ibv_query_device(struct ibv_context *asked, struct ibv_device_attr *attr)
{
	(void)asked;
	memset(attr, 0, sizeof(*attr));
	attr->max_mr_size = UINT64_MAX;
	attr->max_qp = 16;
	attr->max_qp_wr = CQ_CAPACITY;
	attr->max_cqe = CQ_CAPACITY;
	attr->max_qp_rd_atom = 16;
	attr->max_qp_init_rd_atom = 16;
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->phys_port_cnt = 1;
	return 0;
}

int ibv_query_port(struct ibv_context *asked, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr port = {
		.state = IBV_PORT_ACTIVE,
		.active_mtu = IBV_MTU_1024,
		.max_msg_sz = 1U << 30,
		.lid = 1,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};

	(void)asked;
	if (port_num != 1)
		return EINVAL;
	memcpy(attr, &port, offsetof(struct ibv_port_attr, port_cap_flags2));
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *of)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = of;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)access;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = mr->rkey = 1;
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *of, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	(void)cq_context;
	(void)channel;
	(void)comp_vector;
	cq->context = of;
	cq->cqe = cqe;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t numbers;
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->qp_num = ++numbers;
	return qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	(void)qp;
	(void)attr;
	(void)attr_mask;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	(void)context, (void)flags;
	memset(entry, 0, entry_size);
	entry->gid.raw[15] = 1;
	entry->gid_index = index;
	entry->port_num = port;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}

static const struct {
	const char *name;
	void *call;
} calls[] = {
	{ "ibv_get_device_list", ibv_get_device_list },
	{ "ibv_free_device_list", ibv_free_device_list },
	{ "ibv_get_device_name", ibv_get_device_name },
	{ "ibv_open_device", ibv_open_device },
	{ "ibv_close_device", ibv_close_device },
	{ "ibv_query_device", ibv_query_device },
	{ "ibv_query_port", ibv_query_port },
	{ "ibv_alloc_pd", ibv_alloc_pd },
	{ "ibv_dealloc_pd", ibv_dealloc_pd },
	{ "ibv_reg_mr", ibv_reg_mr },
	{ "ibv_dereg_mr", ibv_dereg_mr },
	{ "ibv_create_cq", ibv_create_cq },
	{ "ibv_destroy_cq", ibv_destroy_cq },
	{ "ibv_create_qp", ibv_create_qp },
	{ "ibv_modify_qp", ibv_modify_qp },
	{ "ibv_destroy_qp", ibv_destroy_qp },
	{ "_ibv_query_gid_ex", _ibv_query_gid_ex },
};

void *device_symbol(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].call;
	/* The programs call no other function. abort() works with any signature. */
	return (void *)abort;
}
