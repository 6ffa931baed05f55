/* One rank of an all-reduce of floats over MPI: `allreduce ELEMENTS SECONDS [CORES]`, where CORES lists
 * the core of each rank: 0,2,0,2.
 *
 * Rank 0 prints one line of JSON: how many all-reduces were measured, the seconds of all of them at
 * the slowest rank, and the processor seconds of all ranks in them, in user and kernel mode. */

#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Rounds of a measurement. */
#define LEAST 3
#define MOST 100000

static int rank, ranks;
static long elements;
static float *own, *sum;

/* The part of a value that is the same at all ranks. Sums are small integers, exact in any order. */
static float common(long at) { return (float)(at % 251); }

static double processor(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
        + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Runs on this rank's core only. Threads that MPI starts keep to it, too. */
static void bind_to_core(const char *cores)
{
    const char *own = getenv("OMPI_COMM_WORLD_RANK");
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int left = own ? atoi(own) : 0; left > 0 && *cores; cores++)
        left -= *cores == ',';
    CPU_SET((size_t)atoi(cores), &set);
    if (!own || sched_setaffinity(0, sizeof set, &set) != 0) {
        fprintf(stderr, "error: rank %s cannot run on core %d only\n", own ? own : "unknown",
                atoi(cores));
        exit(1);
    }
}

/* Compares this rank's share of the sum. All ranks together compare every value. */
static void check(void)
{
    float ours = 0.5f * (float)ranks * (float)(ranks + 1);
    for (long at = elements * rank / ranks; at < elements * (rank + 1) / ranks; at++) {
        float expected = (float)ranks * common(at) + ours;
        if (sum[at] != expected) {
            fprintf(stderr, "error: rank %d: value %ld of the sum is %g, not %g\n", rank, at,
                    (double)sum[at], (double)expected);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        sum[at] = -1;
    }
}

/* Seconds of some all-reduces at this rank; adds their processor time to `used`. */
static double reduce(long rounds, double *used)
{
    double seconds = 0;
    for (long round = 0; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double before = processor(), begin = MPI_Wtime();
        MPI_Allreduce(own, sum, (int)elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        seconds += MPI_Wtime() - begin;
        *used += processor() - before;
        check();
    }
    return seconds;
}

/* The greatest of the ranks' numbers. */
static double greatest(double own_number)
{
    double all;
    MPI_Allreduce(&own_number, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

int main(int count, char **arguments)
{
    if (count == 4)
        bind_to_core(arguments[3]);
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count != 3 && count != 4) {
        fprintf(stderr, "error: usage: allreduce ELEMENTS SECONDS [CORES]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    elements = atol(arguments[1]);
    double wanted = atof(arguments[2]);
    own = malloc((size_t)elements * sizeof *own);
    sum = malloc((size_t)elements * sizeof *sum);
    if (!own || !sum) {
        fprintf(stderr, "error: no memory for two tensors of %ld values\n", elements);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (long at = 0; at < elements; at++) {
        own[at] = common(at) + (float)(rank + 1);
        sum[at] = -1;
    }

    /* The first rounds set up connections. Then the batches grow until they are long enough to
     * estimate how many rounds take the wanted time. All of this warms up. */
    double used = 0;
    reduce(2, &used);
    long batch = 1;
    double seconds = greatest(reduce(batch, &used));
    while (seconds < wanted / 4 && batch < MOST) {
        batch *= 2;
        seconds = greatest(reduce(batch, &used));
    }
    double estimate = wanted * (double)batch / seconds;
    long rounds = estimate < LEAST ? LEAST : estimate > MOST ? MOST : (long)estimate;

    used = 0;
    seconds = greatest(reduce(rounds, &used));
    double all_used;
    MPI_Reduce(&used, &all_used, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"rounds\": %ld, \"seconds\": %.9f, \"processor\": %.6f}\n", rounds, seconds,
               all_used);
    free(own);
    free(sum);
    MPI_Finalize();
    return 0;
}
