/* How many processors a process may use, for code without Python: by the rules of `processors.py`. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>

/* The processors' time that one control group allows, 0 for any. */
static double tw_group_limit(const char *folder, int first_version) {
  char path[4400];
  double quota = 0, period = 0;
  snprintf(path, sizeof path, "%s/%s", folder, first_version ? "cpu.cfs_quota_us" : "cpu.max");
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  int found = fscanf(file, "%lf %lf", &quota, &period); /* none where it begins with `max` */
  fclose(file);
  if (first_version && found == 1) {
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!(file = fopen(path, "r"))) return 0;
    found += fscanf(file, "%lf", &period);
    fclose(file);
  }
  return found == 2 && quota > 0 && period > 0 ? quota / period : 0;
}

/* The least that the control groups of the process and those around them allow, 0 for any. */
static double tw_container_limit(const char *groups, const char *membership) {
  double least = 0;
  char line[4096], folder[4300];
  FILE *file = fopen(membership, "r");
  while (file && fgets(line, sizeof line, file)) {
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *controllers = *path = ',';
    line[strcspn(line, "\n")] = 0;
    int second_version = path == controllers + 1;
    const char *cpu = strstr(controllers, ",cpu,");
    if (!second_version && (!cpu || cpu > path)) continue;
    for (char *end = path + strlen(path); end; end = strrchr(path + 1, '/')) {
      *end = 0;
      snprintf(folder, sizeof folder, "%s%s%s", groups, second_version ? "" : "/cpu", path + 1);
      double limit = tw_group_limit(folder, !second_version);
      if (limit > 0 && (least == 0 || limit < least)) least = limit;
    }
  }
  if (file) fclose(file);
  return least;
}

/* Whether a processor is the first one of its core that is allowed. */
static int tw_is_first_of_core(int processor, const cpu_set_t *allowed) {
  char path[96];
  int first, is_first = 1;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", processor);
  FILE *file = fopen(path, "r");
  while (file && fscanf(file, "%d", &first) == 1) {
    int last = first, next = fgetc(file);
    if (next == '-' && fscanf(file, "%d", &last) == 1) next = fgetc(file);
    for (int each = first; each <= last && each < processor; each++)
      if (CPU_ISSET(each, allowed)) is_first = 0;
    if (next != ',') break;
  }
  if (file) fclose(file);
  return is_first;
}

static int tw_counted_processors(const cpu_set_t *allowed) {
  int cores = 0;
  for (int each = 0; each < CPU_SETSIZE; each++)
    if (CPU_ISSET(each, allowed)) cores += tw_is_first_of_core(each, allowed);
  double limit = tw_container_limit("/sys/fs/cgroup", "/proc/self/cgroup");
  if (limit > 0 && limit < cores) cores = (int)limit + (limit > (int)limit);
  return cores > 1 ? cores : 1;
}

/* The number for the affinity of the calling thread; what is known of the latest one is not read again. */
static int tw_processors(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static cpu_set_t known;
  static int count;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed)) return 1;
  if (pthread_mutex_trylock(&mutex)) return tw_counted_processors(&allowed); /* one that was forked may have it locked */
  if (!count || !CPU_EQUAL(&known, &allowed)) {
    count = tw_counted_processors(&allowed);
    known = allowed;
  }
  int found = count;
  pthread_mutex_unlock(&mutex);
  return found;
}
#else
static int tw_processors(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }
#endif
