/* The map beside the algorithm of MPI-DHT (Luebke et al., 2025), by turns in one job.
 *
 *     mpirun -n 2 bucket_cache THEIRS OURS BUCKETS [READS [ROUNDS]]
 *
 * THEIRS: ucx (lock-free over UCP), flush (the same with a flush after each put), nolock (lock-free over
 * MPI) or locks (MPI_Win_lock of the owner).
 * OURS: shm, ucx or mpi, with /unlocked for the mode without claims and /posted for READs and atomics
 * where the CPU could do it. Keys of 80 bytes, values of 104, blocking calls, load factor 0.5. A ratio is
 * the median of the ratios of the rounds.
 *
 * This is not MPI-DHT's code, but the same calls: per candidate one get of the whole bucket (flag, key,
 * value, checksum of 32 bits), and one put of it to write. */
#include <mpi.h>
#include <probeline.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>

enum { KEY = 80, VALUE = 104, CANDIDATES = 6, MAX_RANKS = 64, MAX_ROUNDS = 101 };
enum { OCCUPIED = 1, INVALID = 2, BUCKET = 1 + KEY + VALUE + 4 };

static int rank, ranks;
static uint64_t buckets;

static void require(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "rank %d: %s failed: %s\n", rank, what, probeline_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A hash of 16 bytes a step by a wide product: about as fast as those of MPI-DHT's tests. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash(const void *from, size_t bytes)
{
    const char *at = from;
    uint64_t word[2], sum = bytes ^ 0x9e3779b97f4a7c15u;
    for (; bytes > 16; at += 16, bytes -= 16) {
        memcpy(word, at, 16);
        sum = fold(word[0] ^ 0x2d358dccaa6c78a5u, word[1] ^ sum);
    }
    memcpy(&word[0], at, 8);
    memcpy(&word[1], at + bytes - 8, 8);
    return fold(fold(word[0] ^ 0x8bb84b93962eacc9u, word[1] ^ sum), 0x2d358dccaa6c78a5u);
}

/* ---- their algorithm ---- */

/* How a bucket of another rank is read and written; complete on return. */
struct access {
    void (*open)(size_t bytes);
    void (*close)(void);
    void (*get)(int owner, uint64_t at, void *bucket);
    void (*put)(int owner, uint64_t at, const void *bucket);
    void (*enter)(int owner, int writes);
    void (*leave)(int owner);
    int has_checksum;
};

static const struct access *theirs;
static char *window;

static uint32_t checksum(const char *bucket)
{
    uint64_t sum = hash(bucket + 1, KEY + VALUE);
    return (uint32_t)sum ^ (uint32_t)(sum >> 32);
}

/* Returns whether the key was found. */
static int their_get(const void *key, void *value)
{
    char bucket[BUCKET];
    uint32_t sum;
    uint64_t h = hash(key, KEY);
    int owner = (int)((h >> 56) % (unsigned)ranks), nth, found = 0;

    theirs->enter(owner, 0);
    for (nth = 0; nth < CANDIDATES && !found; nth++) {
        theirs->get(owner, (h >> 8 * nth & 0xffffff) % buckets, bucket);
        if (!(bucket[0] & OCCUPIED))
            break;
        found = memcmp(bucket + 1, key, KEY) == 0;
    }
    theirs->leave(owner);
    if (!found || bucket[0] & INVALID)
        return 0;
    memcpy(&sum, bucket + 1 + KEY + VALUE, 4);
    /* A mismatch would be read once more, and then marked; here nobody writes while others read. */
    if (theirs->has_checksum && sum != checksum(bucket))
        return 0;
    memcpy(value, bucket + 1 + KEY, VALUE);
    return 1;
}

static void their_put(const void *key, const void *value)
{
    char bucket[BUCKET];
    uint32_t sum;
    uint64_t at = 0, h = hash(key, KEY);
    int owner = (int)((h >> 56) % (unsigned)ranks), nth;

    theirs->enter(owner, 1);
    for (nth = 0; nth < CANDIDATES; nth++) {
        at = (h >> 8 * nth & 0xffffff) % buckets;
        theirs->get(owner, at, bucket);
        if (!(bucket[0] & OCCUPIED) || memcmp(bucket + 1, key, KEY) == 0)
            break;
    }
    bucket[0] = OCCUPIED;
    memcpy(bucket + 1, key, KEY);
    memcpy(bucket + 1 + KEY, value, VALUE);
    if (theirs->has_checksum) {
        sum = checksum(bucket);
        memcpy(bucket + 1 + KEY + VALUE, &sum, 4);
    }
    theirs->put(owner, at, bucket);
    theirs->leave(owner);
}

static void their_clear(void)
{
    memset(window, 0, buckets * BUCKET);
}

static void enter_nothing(int owner, int writes) { (void)owner, (void)writes; }
static void leave_nothing(int owner) { (void)owner; }

/* ---- over UCP ---- */

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_mem_h memory;
static ucp_ep_h endpoints[MAX_RANKS];
static ucp_rkey_h keys[MAX_RANKS];
static uint64_t bases[MAX_RANKS];

static void finish(ucs_status_ptr_t request)
{
    if (request == NULL)
        return;
    require(!UCS_PTR_IS_ERR(request), "an operation of UCP");
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    require(ucp_request_check_status(request) == UCS_OK, "an operation of UCP");
    ucp_request_free(request);
}

/* Gathers a block of each rank, of any size. */
static void exchange(const void *mine, size_t bytes, char all[MAX_RANKS][1024])
{
    static char padded[1024];
    require(bytes <= sizeof padded, "a block of at most 1 KiB");
    memcpy(padded, mine, bytes);
    MPI_Allgather(padded, sizeof padded, MPI_BYTE, all, sizeof padded, MPI_BYTE, MPI_COMM_WORLD);
}

static void ucx_open(size_t bytes)
{
    static char all[MAX_RANKS][1024];
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA };
    ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                          .thread_mode = UCS_THREAD_MODE_SINGLE };
    ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                               UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                 .length = bytes, .flags = UCP_MEM_MAP_ALLOCATE };
    ucp_mem_attr_t attributes = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };
    ucp_address_t *address;
    void *packed;
    size_t length;
    int peer;

    require(ucp_init(&params, NULL, &context) == UCS_OK, "ucp_init");
    require(ucp_worker_create(context, &worker_params, &worker) == UCS_OK, "ucp_worker_create");
    require(ucp_mem_map(context, &map, &memory) == UCS_OK, "ucp_mem_map");
    require(ucp_mem_query(memory, &attributes) == UCS_OK, "ucp_mem_query");
    window = attributes.address;
    MPI_Allgather(&window, 8, MPI_BYTE, bases, 8, MPI_BYTE, MPI_COMM_WORLD);
    require(ucp_worker_get_address(worker, &address, &length) == UCS_OK, "the address");
    exchange(address, length, all);
    ucp_worker_release_address(worker, address);
    for (peer = 0; peer < ranks; peer++) {
        ucp_ep_params_t endpoint = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                     .address = (void *)all[peer] };
        require(ucp_ep_create(worker, &endpoint, &endpoints[peer]) == UCS_OK, "ucp_ep_create");
    }
    require(ucp_rkey_pack(context, memory, &packed, &length) == UCS_OK, "ucp_rkey_pack");
    exchange(packed, length, all);
    ucp_rkey_buffer_release(packed);
    for (peer = 0; peer < ranks; peer++)
        require(ucp_ep_rkey_unpack(endpoints[peer], all[peer], &keys[peer]) == UCS_OK, "the key");
}

static void ucx_close(void)
{
    for (int peer = 0; peer < ranks; peer++)
        ucp_rkey_destroy(keys[peer]);
    MPI_Barrier(MPI_COMM_WORLD);
    ucp_worker_destroy(worker);
    ucp_mem_unmap(context, memory);
    ucp_cleanup(context);
}

static void ucx_get(int owner, uint64_t at, void *bucket)
{
    static const ucp_request_param_t none;
    finish(ucp_get_nbx(endpoints[owner], bucket, BUCKET, bases[owner] + at * BUCKET, keys[owner],
                       &none));
}

/* Complete when the bucket may be used again: MPI-DHT does not flush. */
static void ucx_put(int owner, uint64_t at, const void *bucket)
{
    static const ucp_request_param_t none;
    finish(ucp_put_nbx(endpoints[owner], bucket, BUCKET, bases[owner] + at * BUCKET, keys[owner],
                       &none));
}

/* Complete when the bucket has arrived, as a WRITE of a transport is. */
static void ucx_put_flushed(int owner, uint64_t at, const void *bucket)
{
    static const ucp_request_param_t none;
    ucx_put(owner, at, bucket);
    finish(ucp_ep_flush_nbx(endpoints[owner], &none));
}

/* ---- over MPI ---- */

static MPI_Win win;

static void locks_open(size_t bytes)
{
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
}

static void nolock_open(size_t bytes)
{
    locks_open(bytes);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
}

static void locks_close(void) { MPI_Win_free(&win); }

static void nolock_close(void)
{
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void mpi_get(int owner, uint64_t at, void *bucket)
{
    MPI_Get(bucket, BUCKET, MPI_BYTE, owner, (MPI_Aint)(at * BUCKET), BUCKET, MPI_BYTE, win);
    MPI_Win_flush(owner, win);
}

static void mpi_put(int owner, uint64_t at, const void *bucket)
{
    MPI_Put(bucket, BUCKET, MPI_BYTE, owner, (MPI_Aint)(at * BUCKET), BUCKET, MPI_BYTE, win);
    MPI_Win_flush(owner, win);
}

static void locks_enter(int owner, int writes)
{
    MPI_Win_lock(writes ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, owner, 0, win);
}

static void locks_leave(int owner) { MPI_Win_unlock(owner, win); }

/* ---- ours ---- */

static probeline_job *job;
static probeline_map *map;

static void our_open(const char *name)
{
    static const char *const names[] = { "", "shm", "verbs", "ucx", "mpi" };
    probeline_job_options options;
    probeline_map_options sizes;
    char address[32];
    int transport = 4;

    require(!probeline_job_options_init(&options, sizeof options), "options of a job");
    while (transport > 0 && strncmp(name, names[transport], strlen(names[transport])) != 0)
        transport--;
    require(transport > 0, "the name of our transport");
    options.transport = transport;
    if (transport != PROBELINE_TRANSPORT_MPI) {
        /* The launcher has one client in each process: MPI. */
        snprintf(address, sizeof address, "127.0.0.1:%s", getenv("BUCKET_CACHE_PORT"));
        options.start = PROBELINE_START_MANUAL;
        options.rank = (uint32_t)rank;
        options.ranks = (uint32_t)ranks;
        options.rendezvous = address;
    }
    require(!probeline_job_open(&options, &job), "opening a job");
    require(!probeline_map_options_init(&sizes, sizeof sizes), "options of a map");
    sizes.key_bytes = KEY;
    sizes.value_bytes = VALUE;
    sizes.buckets_per_rank = buckets;
    /* On one machine a post is as good as done: claims along with READs only cost. */
    sizes.claims_with_read = 0;
    sizes.direct = strstr(name, "/posted") == NULL;
    if (strstr(name, "/unlocked"))
        sizes.mode = PROBELINE_MODE_UNLOCKED;
    require(!probeline_map_open(job, &sizes, &map), "opening a map");
}

static int our_get(const void *key, void *value)
{
    probeline_outcome outcome;
    require(!probeline_map_get(map, key, value, &outcome), "a get");
    return outcome == PROBELINE_FOUND;
}

static void our_put(const void *key, const void *value)
{
    require(!probeline_map_put(map, key, value, NULL), "a put");
}

static void our_clear(void)
{
    require(!probeline_map_clear(map), "clearing the map");
}

/* ---- the measurement ---- */

struct cache {
    void (*clear)(void);
    void (*put)(const void *key, const void *value);
    int (*get)(const void *key, void *value);
};

enum { INSERT, READ, OVERWRITE, PHASES };

static void make(uint64_t number, uint64_t key[KEY / 8], uint64_t value[VALUE / 8], uint64_t version)
{
    key[0] = number * 0x9e3779b97f4a7c15u;
    key[9] = number;
    value[0] = number;
    value[12] = version;
}

/* Million operations of all ranks a second of wall-clock time, and of processor time of each rank. The
 * latter hardly depends on the machine's load, where no operation waits for the other rank. */
struct rate {
    double wall, cpu;
};

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Runs a phase, and stores its rates. Returns the misses. */
static uint64_t phase(const struct cache *cache, int what, uint64_t count, struct rate *rate)
{
    uint64_t key[KEY / 8] = { 0 }, value[VALUE / 8] = { 0 }, found[VALUE / 8], nth, misses = 0;
    uint64_t keys_of_each = buckets / 2, random = 88172645463325252u + (uint64_t)rank;
    double start, cpu, all_cpu;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    cpu = cpu_seconds();
    for (nth = 0; nth < count; nth++) {
        if (what == READ) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            make(random % (keys_of_each * (unsigned)ranks), key, value, 0);
            if (!cache->get(key, found))
                misses++;
            else
                require(found[0] == value[0], "the value of the key");
        } else {
            make((uint64_t)rank * keys_of_each + nth % keys_of_each, key, value, (uint64_t)what);
            cache->put(key, value);
        }
    }
    cpu = cpu_seconds() - cpu;
    MPI_Allreduce(&cpu, &all_cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    rate->wall = (double)count * ranks / (MPI_Wtime() - start) / 1e6;
    rate->cpu = (double)count * ranks * ranks / all_cpu / 1e6;
    return misses;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *of, int count)
{
    qsort(of, (size_t)count, sizeof *of, compare);
    return of[count / 2];
}

int main(int argc, char **argv)
{
    static const struct access ways[] = {
        { ucx_open, ucx_close, ucx_get, ucx_put, enter_nothing, leave_nothing, 1 },
        { ucx_open, ucx_close, ucx_get, ucx_put_flushed, enter_nothing, leave_nothing, 1 },
        { nolock_open, nolock_close, mpi_get, mpi_put, enter_nothing, leave_nothing, 1 },
        { locks_open, locks_close, mpi_get, mpi_put, locks_enter, locks_leave, 0 },
    };
    static const char *const names[] = { "ucx", "flush", "nolock", "locks" };
    static const char *const phases[PHASES] = { "insert", "read", "overwrite" };
    static const struct cache both[2] = { { their_clear, their_put, their_get },
                                          { our_clear, our_put, our_get } };
    static double rates[2][PHASES][MAX_ROUNDS], ratios[2][PHASES][MAX_ROUNDS];
    struct rate rate[2][PHASES];
    uint64_t reads, misses[2] = { 0, 0 };
    int rounds, round, what, who, way = 3, level;

    if (argc < 4)
        return 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    buckets = strtoull(argv[3], NULL, 10);
    reads = argc > 4 ? strtoull(argv[4], NULL, 10) : 100000;
    rounds = argc > 5 ? atoi(argv[5]) : 11;
    require(ranks <= MAX_RANKS && rounds <= MAX_ROUNDS && buckets <= 1 << 24, "the sizes");
    while (way > 0 && strcmp(argv[1], names[way]) != 0)
        way--;
    theirs = &ways[way];
    theirs->open(buckets * BUCKET);
    our_open(argv[2]);

    /* The first round touches the memory. */
    for (round = -1; round < rounds; round++) {
        int at = round < 0 ? 0 : round;
        for (what = 0; what < PHASES; what++)
            for (who = 0; who < 2; who++) {
                uint64_t count = what == INSERT ? buckets / 2 : reads;
                if (what == INSERT)
                    both[who].clear();
                misses[who] += phase(&both[who], what, count, &rate[who][what]);
            }
        for (what = 0; what < PHASES; what++) {
            for (who = 0; who < 2; who++)
                rates[who][what][at] = rate[who][what].wall;
            ratios[0][what][at] = rate[1][what].wall / rate[0][what].wall;
            ratios[1][what][at] = rate[1][what].cpu / rate[0][what].cpu;
        }
    }
    for (what = 0; rank == 0 && what < PHASES; what++)
        printf("| %s / %s | %llu | %s | %.2f | %.2f | %.2f | %.2f |\n", argv[2], argv[1],
               (unsigned long long)buckets, phases[what], median(rates[1][what], rounds),
               median(rates[0][what], rounds), median(ratios[0][what], rounds),
               median(ratios[1][what], rounds));
    if (rank == 0)
        fprintf(stderr, "misses: ours %llu, theirs %llu\n", (unsigned long long)misses[1],
                (unsigned long long)misses[0]);
    probeline_map_close(map);
    probeline_job_close(job);
    theirs->close();
    MPI_Finalize();
    return 0;
}
