/*
 * The loops in C: `post N` executes N READs one by one, `list N` in lists of BATCH.
 * They fill only the fields that a READ uses.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 32
#define WINDOW_WORDS 4096
#define SLOTS 64
#define WORDS 8

static uint64_t window[WINDOW_WORDS], slots[SLOTS * WORDS];

struct peer {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *local, *remote;
};

/* Sets `address` to that of word `start`. Fails unless `words` words from there lie in the region. */
static inline int address_of(const struct ibv_mr *mr, uint64_t start, uint32_t words, uint64_t *address)
{
	if (start + words > mr->length / 8)
		return -1;
	*address = (uintptr_t)mr->addr + start * 8;
	return 0;
}

/* Fills the request `id`: a READ of WORDS words. */
static inline int fill(const struct peer *peer, uint64_t id, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	if (address_of(peer->local, id % SLOTS * WORDS, WORDS, &sge->addr) ||
	    address_of(peer->remote, id * WORDS % WINDOW_WORDS, WORDS, &wr->wr.rdma.remote_addr))
		return -1;
	sge->length = WORDS * 8;
	sge->lkey = peer->local->lkey;
	wr->wr_id = id;
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_READ;
	wr->send_flags = IBV_SEND_SIGNALED;
	wr->wr.rdma.rkey = peer->remote->rkey;
	return 0;
}

/* Posts one READ and waits for its completion. */
__attribute__((noinline)) static uint64_t read_one(const struct peer *peer, uint64_t id,
						   struct ibv_wc *wc)
{
	struct ibv_send_wr wr, *bad_wr;
	struct ibv_sge sge;
	int found;

	if (fill(peer, id, &wr, &sge) || ibv_post_send(peer->qp, &wr, &bad_wr))
		abort();
	while ((found = ibv_poll_cq(peer->cq, 1, wc)) == 0)
		;
	if (found < 0 || wc->status != IBV_WC_SUCCESS)
		abort();
	return wc->wr_id;
}

static uint64_t post_loop(const struct peer *peer, uint64_t count)
{
	struct ibv_wc wc;
	uint64_t sum = 0;

	for (uint64_t id = 0; id < count; id++)
		sum += read_one(peer, id, &wc);
	return sum;
}

/* Posts BATCH READs in one list, and waits for their completions. */
__attribute__((noinline)) static uint64_t read_batch(const struct peer *peer, uint64_t first,
						     struct ibv_send_wr *wr, struct ibv_sge *sge,
						     struct ibv_wc *wc)
{
	struct ibv_send_wr *bad_wr;
	uint64_t sum = 0;

	for (int i = 0; i < BATCH; i++) {
		if (fill(peer, first + i, &wr[i], &sge[i]))
			abort();
		if (i > 0)
			wr[i - 1].next = &wr[i];
	}
	if (ibv_post_send(peer->qp, wr, &bad_wr))
		abort();
	for (int completed = 0; completed < BATCH;) {
		int found = ibv_poll_cq(peer->cq, BATCH, wc);

		if (found < 0)
			abort();
		for (int i = 0; i < found; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				abort();
			sum += wc[i].wr_id;
		}
		completed += found;
	}
	return sum;
}

static uint64_t list_loop(const struct peer *peer, uint64_t count)
{
	static struct ibv_send_wr wr[BATCH];
	static struct ibv_sge sge[BATCH];
	static struct ibv_wc wc[BATCH];
	uint64_t sum = 0;

	for (uint64_t first = 0; first < count; first += BATCH)
		sum += read_batch(peer, first, wr, sge, wc);
	return sum;
}

static struct peer open_peer(void)
{
	int devices;
	struct ibv_device **list = ibv_get_device_list(&devices);
	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, BATCH, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };

	ibv_free_device_list(list);
	return (struct peer){
		.qp = ibv_create_qp(pd, &attr),
		.cq = cq,
		.local = ibv_reg_mr(pd, slots, sizeof(slots), IBV_ACCESS_LOCAL_WRITE),
		.remote = ibv_reg_mr(pd, window, sizeof(window), IBV_ACCESS_REMOTE_READ),
	};
}

int main(int argc, char **argv)
{
	struct peer peer = open_peer();
	uint64_t count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

	if (argc == 3 && !strcmp(argv[1], "post"))
		printf("%llu\n", (unsigned long long)post_loop(&peer, count));
	else if (argc == 3 && !strcmp(argv[1], "list"))
		printf("%llu\n", (unsigned long long)list_loop(&peer, count));
	else
		return 2;
	return 0;
}
