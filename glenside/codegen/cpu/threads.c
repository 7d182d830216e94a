/* The worker threads of kernels for the processor: what TVM's compiled code calls of its runtime.

   A launch runs `tasks` parts of a loop: part 0 by the caller, the others by workers, who wait for
   the next launch actively for a while and then asleep. While one thread launches, launches of
   others run all parts themselves. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 512
#define ACTIVE 20000 /* looks at the next launch before a worker sleeps: some 20 us */

typedef struct {
  void* sync;
  int32_t tasks;
} Group;
typedef int (*Part)(int number, Group* group, void* data);

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;  /* of launches */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* of sleeping workers */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static atomic_uint launch_number;
static atomic_int unfinished, sleepers, failed;
static int workers, wanted = 1;
static unsigned started_at[MOST]; /* the launch before a worker's first one */
static pid_t owner;
static Part part;
static void* part_data;
static Group group;

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void* work(void* argument) {
  int number = (int)(intptr_t)argument;
  unsigned seen = started_at[number];
  for (;;) {
    int looks = 0;
    while (atomic_load_explicit(&launch_number, memory_order_acquire) == seen) {
      if (++looks < ACTIVE) {
        pause_briefly();
        continue;
      }
      pthread_mutex_lock(&guard);
      atomic_fetch_add(&sleepers, 1);
      while (atomic_load(&launch_number) == seen) pthread_cond_wait(&wake, &guard);
      atomic_fetch_sub(&sleepers, 1);
      pthread_mutex_unlock(&guard);
    }
    seen = atomic_load(&launch_number);
    if (number < group.tasks && part(number, &group, part_data) != 0) atomic_store(&failed, 1);
    atomic_fetch_sub_explicit(&unfinished, 1, memory_order_release);
  }
  return NULL;
}

/* How many threads share a loop from now on, the caller among them. */
void glenside_threads(int count) {
  pthread_mutex_lock(&turn);
  wanted = count < 1 ? 1 : count > MOST ? MOST : count;
  pthread_mutex_unlock(&turn);
}

static void start_workers(void) {
  if (owner != getpid()) { /* A fork has no workers. */
    owner = getpid();
    workers = 0;
    atomic_store(&launch_number, 0);
    atomic_store(&sleepers, 0);
    pthread_mutex_init(&guard, NULL);
    pthread_cond_init(&wake, NULL);
  }
  while (workers < wanted - 1) {
    pthread_t thread;
    started_at[workers + 1] = atomic_load(&launch_number);
    if (pthread_create(&thread, NULL, work, (void*)(intptr_t)(workers + 1)) != 0) break;
    pthread_detach(thread);
    ++workers;
  }
}

int TVMBackendParallelLaunch(Part given, void* data, int tasks) {
  if (pthread_mutex_trylock(&turn) != 0) {
    Group alone = {NULL, 1};
    return given(0, &alone, data);
  }
  start_workers();
  int most = wanted < workers + 1 ? wanted : workers + 1;
  part = given;
  part_data = data;
  group.sync = NULL;
  group.tasks = tasks > 0 && tasks < most ? tasks : most;
  atomic_store(&failed, 0);
  atomic_store(&unfinished, workers);
  if (group.tasks > 1) {
    atomic_fetch_add_explicit(&launch_number, 1, memory_order_seq_cst);
    if (atomic_load(&sleepers) > 0) {
      pthread_mutex_lock(&guard);
      pthread_cond_broadcast(&wake);
      pthread_mutex_unlock(&guard);
    }
  }
  int result = given(0, &group, data);
  int looks = 0;
  if (group.tasks > 1)
    while (atomic_load_explicit(&unfinished, memory_order_acquire) > 0) {
      if (++looks < ACTIVE)
        pause_briefly();
      else
        sched_yield();
    }
  if (atomic_load(&failed)) result = -1;
  pthread_mutex_unlock(&turn);
  return result;
}

void* TVMBackendAllocWorkspace(int kind, int device, uint64_t bytes, int code, int bits) {
  void* found = NULL;
  (void)kind, (void)device, (void)code, (void)bits;
  return posix_memalign(&found, 64, bytes ? bytes : 64) == 0 ? found : NULL;
}

int TVMBackendFreeWorkspace(int kind, int device, void* memory) {
  (void)kind, (void)device;
  free(memory);
  return 0;
}
