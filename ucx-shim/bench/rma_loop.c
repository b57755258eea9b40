/* The calls that the transport makes for a READ and for atomics, in a plain loop. */
#include <mpi.h>
#include <stdint.h>

static MPI_Win window;

/* Opens a window of `words` words at every rank; collective. Returns an MPI code. */
int loop_open(int words)
{
    MPI_Comm comm;
    uint64_t *base;
    MPI_Info info;
    int code;
    if ((code = MPI_Comm_dup(MPI_COMM_WORLD, &comm)) != MPI_SUCCESS)
        return code;
    MPI_Info_create(&info);
    MPI_Info_set(info, "same_size", "true");
    MPI_Info_set(info, "same_disp_unit", "true");
    code = MPI_Win_allocate((MPI_Aint)words * 8, 8, info, comm, &base, &window);
    MPI_Info_free(&info);
    if (code != MPI_SUCCESS)
        return code;
    for (int i = 0; i < words; i++)
        base[i] = 0;
    MPI_Barrier(comm);
    return MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
}

int loop_read(int rounds, int target, int words, uint64_t *into)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Get(into, words, MPI_UINT64_T, target, 0, words, MPI_UINT64_T, window);
        int code = MPI_Win_flush(target, window);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}

int loop_cas(int rounds, int target, uint64_t *words)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Compare_and_swap(&words[0], &words[1], &words[2], MPI_UINT64_T, target, 0, window);
        int code = MPI_Win_flush(target, window);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}

int loop_fadd(int rounds, int target, uint64_t *words)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Fetch_and_op(&words[0], &words[2], MPI_UINT64_T, target, 0, MPI_SUM, window);
        int code = MPI_Win_flush(target, window);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}

int loop_close(void)
{
    MPI_Win_unlock_all(window);
    return MPI_Win_free(&window);
}
