/* What all kernels of an exported library share: threads, scratch memory and messages. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What begins with TW_ and is defined nowhere here is in backends/cpu/context.py. */
enum { TW_MAX_THREADS = 1024 };
#define TW_MAX_GRID 16777215u /* per axis, as ct.launch */

typedef union {
  int64_t integer;
  double number;
  const void *address;
} tw_word;

typedef void tw_entry(const tw_word *arguments, int64_t *context, void *scratch, void *worker);

/* A kernel as the backend compiled it. */
typedef struct {
  tw_entry *entry;
  size_t scratch_bytes; /* for each thread */
  bool spins;           /* blocks may wait for each other, and need a thread each */
  bool small;           /* a block does so little that threads are not worth waking for few of them */
  double block_work;
  const char *const *assertions;
  void (*print)(int64_t site, const int64_t *addresses); /* or NULL */
} tw_kernel;

static _Thread_local char tw_message[1024];

const char *LIBRARY_NAME_last_error(void) { return tw_message; }

static int32_t tw_fail(int32_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(tw_message, sizeof tw_message, format, arguments);
  va_end(arguments);
  return status;
}

typedef struct {
  const tw_kernel *kernel;
  const tw_word *arguments;
  int64_t *context;
  pthread_mutex_t lock;
  pthread_cond_t decided;
  int go; /* 0: wait; 1: run; -1: there are too few threads, give up */
} tw_launch;

typedef struct {
  tw_launch *launch;
  void *scratch;
  void *record; /* of the thread, for the code */
  pthread_t thread;
} tw_worker;

static void *tw_work(void *data) {
  tw_worker *worker = data;
  tw_launch *launch = worker->launch;
  pthread_mutex_lock(&launch->lock);
  while (!launch->go) pthread_cond_wait(&launch->decided, &launch->lock);
  int go = launch->go;
  pthread_mutex_unlock(&launch->lock);
  if (go > 0) launch->kernel->entry(launch->arguments, launch->context, worker->scratch, worker->record);
  return NULL;
}

static int tw_thread_count(const tw_kernel *kernel, double blocks) {
  const char *wanted = getenv("TILEWRIGHT_NUM_THREADS");
  long count = wanted ? atol(wanted) : sysconf(_SC_NPROCESSORS_ONLN);
  if (kernel->spins && count < TW_SPIN_THREADS) count = TW_SPIN_THREADS;
  if (count > TW_MAX_THREADS) count = TW_MAX_THREADS;
  if (count > blocks) count = (long)blocks;
  if (count < 1 || (kernel->small && blocks * kernel->block_work < TW_WORTH_A_THREAD)) count = 1;
  return (int)count;
}

/* Of the CUDA runtime, in programs of C++: how many of the wanted threads may help, as others use processors, too. */
__attribute__((weak)) int __tw_take_threads(int wanted);
__attribute__((weak)) void __tw_give_threads(int count);

static int32_t tw_run(const tw_kernel *kernel, uint32_t x, uint32_t y, uint32_t z, const tw_word *arguments) {
  const uint32_t grid[3] = {x, y, z};
  for (int axis = 0; axis < 3; axis++)
    if (grid[axis] == 0 || grid[axis] > TW_MAX_GRID)
      return tw_fail(TILEWRIGHT_BAD_ARGUMENT, "grid_%c is %u; it must be from 1 to %u", "xyz"[axis], grid[axis], TW_MAX_GRID);
  if ((double)x * y * z > 9e18) return tw_fail(TILEWRIGHT_BAD_ARGUMENT, "the grid has more than 9e18 blocks");
  int64_t total = (int64_t)x * y * z;
  int count = tw_thread_count(kernel, (double)total), granted = 0;
  if (__tw_take_threads && count > 1) granted = __tw_take_threads(count - 1);
  if (__tw_take_threads && !kernel->spins) count = 1 + granted;
  int64_t chunk = kernel->spins ? 1 : total / ((int64_t)count * TW_CHUNKS_PER_THREAD);
  int64_t context[TW_FIELDS] = {
      [TW_TOTAL] = total,
      [TW_CHUNK] = chunk > 1 ? chunk : 1,
      [TW_GRID_X] = x,
      [TW_GRID_Y] = y,
      [TW_GRID_Z] = z,
      [TW_PRINT] = (int64_t)(intptr_t)kernel->print};
  size_t record_at = (kernel->scratch_bytes + TW_ALIGNMENT) / TW_ALIGNMENT * TW_ALIGNMENT;
  size_t scratch_bytes = record_at + TW_WORKER_BYTES;
  tw_worker *workers = calloc((size_t)count, sizeof *workers);
  void *scratch = NULL;
  if (!workers || posix_memalign(&scratch, TW_ALIGNMENT, scratch_bytes * (size_t)count)) {
    free(workers);
    if (granted) __tw_give_threads(granted);
    return tw_fail(TILEWRIGHT_NO_MEMORY, "no memory for %d threads with %zu bytes each", count, scratch_bytes);
  }
  tw_launch launch = {.kernel = kernel, .arguments = arguments, .context = context};
  pthread_mutex_init(&launch.lock, NULL);
  pthread_cond_init(&launch.decided, NULL);
  int started = 1; /* the calling thread is the first worker */
  for (int i = 0; i < count; i++) {
    workers[i].launch = &launch;
    workers[i].scratch = (char *)scratch + scratch_bytes * (size_t)i;
    workers[i].record = (char *)workers[i].scratch + record_at;
  }
  while (started < count && !pthread_create(&workers[started].thread, NULL, tw_work, &workers[started])) started++;
  bool enough = started == count || !kernel->spins;
  pthread_mutex_lock(&launch.lock);
  launch.go = enough ? 1 : -1;
  pthread_cond_broadcast(&launch.decided);
  pthread_mutex_unlock(&launch.lock);
  if (enough) kernel->entry(arguments, context, scratch, workers[0].record);
  for (int i = 1; i < started; i++) pthread_join(workers[i].thread, NULL);
  if (granted) __tw_give_threads(granted);
  if (kernel->print) fflush(stdout);
  pthread_cond_destroy(&launch.decided);
  pthread_mutex_destroy(&launch.lock);
  free(scratch);
  free(workers);
  if (!enough) return tw_fail(TILEWRIGHT_NO_MEMORY, "the system gave %d threads of %d", started, count);
  if (context[TW_FAILED]) {
    int64_t block = context[TW_FAILED_BLOCK];
    return tw_fail(TILEWRIGHT_ASSERTION_FAILED, "%s, in block (%lld, %lld, %lld)",
                   kernel->assertions[context[TW_FAILED] - 1], (long long)(block % x), (long long)(block / x % y),
                   (long long)(block / x / y));
  }
  tw_message[0] = 0;
  return TILEWRIGHT_OK;
}
