// Blocks that wait in loops for what others write. Where all that have begun wait, others are begun by more threads; and
// where nothing can happen any more, the launch fails.
#include "simt.h"
#include <dirent.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tilewright {
constexpr unsigned most_threads = 1024;
constexpr unsigned pause = 50;  // microseconds
constexpr double seconds_of_looking = 0.001;  // without a pause, as another kernel may write soon
constexpr double seconds_of_waiting = 5;  // until it is asked whether other threads of the program may write
constexpr double seconds_of_window = 0.25;  // in which all change memory at most, until more threads begin other blocks
constexpr double seconds_between_looks = 0.25, seconds_of_silence = 1, seconds_until_told = 15;

// A launch whose blocks may wait for what others write, by an address that is its own: the threads that run them, and the
// one that asks about it; whether all of its blocks wait; when it was asked who else may write, and since when nobody may.
struct party {
    void const* launch;
    list<int> threads;
    int asker;
    bool stuck;
    double asked, silent;
};
static list<party> parties;
// One of them has begun to wait, or no longer does.
static void parties_changed() {
    for (party& each : parties) each.silent = 0;
}
static party* party_of(void const* launch) {
    for (party& each : parties)
        if (each.launch == launch) return &each;
    return nullptr;
}

// What blocks wait for may have changed.
static void changed(launch* run) {
    waiting& all = run->waits;
    ++all.epoch;
    all.confirmed = 0;
    all.since = now();
    if (all.stuck) __tw_is_stuck(run, all.stuck = false);
}
static void count_worker(launch* run, int change) {
    locked here;
    run->waits.workers += unsigned(change);
    changed(run);
}
static void work_listed(launch* run) {
    __tw_takes_part(run, true);
    work(run);
    __tw_takes_part(run, false);
    count_worker(run, -1);
}
void work_counted(launch* run) {
    count_worker(run, 1);
    work_listed(run);
}
static void* work_more(void* given) {
    auto* run = (launch*)given;
    work_listed(run);
    locked here;
    --run->waits.more;
    return nullptr;
}
// Whether a thread of the process does something, or wakes some time without others: all but one that waits for a lock.
static bool may_go_on(char const* thread) {
    char path[64], text[128] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/syscall", thread);
    FILE* file = fopen(path, "r");
    if (!file) return false;  // it has ended, or the system does not tell
    bool const read = fgets(text, sizeof text, file) != nullptr;
    fclose(file);
    long call;
    unsigned long long arguments[4];  // the last one is how long it waits at most
    int const found = sscanf(text, "%ld %llx %llx %llx %llx", &call, arguments, arguments + 1, arguments + 2, arguments + 3);
    return read && (found < 5 || call != SYS_futex || arguments[3]);
}
static bool others_may_go_on(list<int> const& known) {
    DIR* threads = opendir("/proc/self/task");
    bool any = false;
    for (dirent* each; threads && !any && (each = readdir(threads));)
        any = each->d_name[0] != '.' && !known.holds(atoi(each->d_name)) && may_go_on(each->d_name);
    if (threads) closedir(threads);
    return any;
}
// Has one more thread take blocks: whether it could, and there are some.
static bool add_thread(launch* run) {
    bool const left = __atomic_load_n(&run->next, __ATOMIC_RELAXED) < run->count;
    pthread_t made;
    if (!left || run->waits.more == most_threads || pthread_create(&made, nullptr, work_more, run) != 0) return false;
    pthread_detach(made);
    ++run->waits.more;
    count_worker(run, 1);
    return true;
}
// Blocks that change memory while they wait, as those that count how often they look, begin no epoch that all confirm:
// they get more threads after a while in which all workers have looked, and done nothing else.
static void look_at_window(worker* mine, bool moved) {
    waiting& all = mine->run->waits;
    long const window = long(now() / seconds_of_window);
    if (window != all.window) {
        bool const stood = window == all.window + 1 && !all.moved && all.in_window >= all.workers;
        all.window = window;
        all.in_window = 0;
        all.moved = false;
        for (unsigned more = stood ? all.workers : 0; more > 0 && add_thread(mine->run); --more) {}
    }
    all.moved |= moved;
    all.in_window += mine->spin.window != window;
    mine->spin.window = window;
}
// Runs a launch that may wait for the program, by threads of its own: the others are there for what runs beside it.
void run_apart(launch* run) {
    unsigned long long const all = (unsigned long long)worker_count(), most = run->count < all ? run->count : all;
    waiting& waits = run->waits;
    waits.held = 1 + __tw_take_threads(int(most) - 1);
    {
        locked here;
        for (int i = 1; i < waits.held; ++i) add_thread(run);
    }
    work_counted(run);
    wait_for_more(run);
    keep_threads(waits.given);
    __tw_give_threads(waits.held - 1);
}
void wait_for_more(launch* run) {
    for (;; usleep(pause)) {
        locked here;
        if (run->waits.more == 0) return;
    }
}

void begin_round(worker* mine) {
    mine->spin.epoch = __atomic_load_n(&mine->run->waits.epoch, __ATOMIC_ACQUIRE);
    mine->spin.before = mine->spin.lanes;
    mine->spin.lanes = mine->spin.moves = 0;
    mine->spin.only = mine->spin.stands = true;
}
void spin(worker* mine, char const* file, int line) {
    ++mine->spin.lanes;
    mine->spin.only &= line > 0;
    mine->spin.stands &= line != 0;
    mine->spin.file = file;
    mine->spin.line = line;
}
bool end_round(worker* mine, unsigned round) {
    if (round % 64 == 63) mine->run->waits.given ? usleep(pause) : sched_yield();
    launch* run = mine->run;
    waiting& all = run->waits;
    double waited = 0;  // since all blocks that have begun wait, and no other can begin
    {
        locked here;
        bool const moved = mine->spin.moves || mine->spin.lanes != mine->spin.before;
        look_at_window(mine, moved || !mine->spin.stands);
        if (moved || !mine->spin.only) changed(run);
        if (all.epoch != mine->spin.epoch) return true;
        all.confirmed += mine->spin.confirmed != all.epoch;
        mine->spin.confirmed = all.epoch;
        if (all.confirmed < all.workers || add_thread(run)) return true;
        if (all.asked_by && !all.given) {
            __tw_give_threads(all.given = all.held);
            is_idle(all.asked_by);
        }
        waited = now() - all.since;
        all.stuck |= waited >= seconds_of_waiting;
    }
    if (waited >= seconds_of_looking) usleep(pause);
    if (waited < seconds_of_waiting) return true;
    if (__tw_is_stuck(run, true)) {
        fail(run, mine->spin.file, mine->spin.line, "every block that is left waits for memory that none of them changes");
        return false;
    }
    if (waited >= seconds_until_told && !__atomic_exchange_n(&all.told, true, __ATOMIC_RELAXED))
        say("%s:%d: %s() has waited for %g seconds for memory that no kernel changes; the program may yet", mine->spin.file,
            mine->spin.line & ((1 << column_shift) - 1), run->kernel, seconds_until_told);
    return true;
}

}  // namespace tilewright

using namespace tilewright;
extern "C" {
// A thread has come to a loop that waits.
void __tw_simt_enters() { ++here->spin.moves; }
void __tw_takes_part(void const* launch, int begins) {
    int const self = int(syscall(SYS_gettid));
    locked here;
    party* found = party_of(launch);
    if (!found && begins) found = &parties.add({launch, {}, 0, false, 0, 0}), parties_changed();
    if (found && begins) found->threads.add(self);
    if (!found || begins) return;
    found->threads.discard(self);
    if (found->threads.count) return;
    found->threads.clear();
    parties.remove(size_t(found - parties.items));
    parties_changed();
}
int __tw_is_stuck(void const* launch, int stuck) {
    list<int> known{};
    {
        locked here;
        party* own = party_of(launch);
        if (!own) return 0;
        if (own->stuck != bool(stuck)) parties_changed();
        own->stuck = stuck;
        own->asker = int(syscall(SYS_gettid));
        if (!stuck || now() - own->asked < seconds_between_looks) return 0;
        own->asked = now();
        for (party const& each : parties)
            if (!each.stuck) return 0;
        for (party const& each : parties) {
            known.add(each.asker);
            for (int thread : each.threads) known.add(thread);
        }
    }
    bool any = false;  // threads may wait for a lock that another one has for a moment
    for (int i = 0; i < 3 && !any; ++i, usleep(1000)) any = others_may_go_on(known);
    known.clear();
    locked here;
    party* own = party_of(launch);
    if (any || !own->silent) own->silent = any ? 0 : now();
    return own->silent && now() - own->silent >= seconds_of_silence;  // what others have written last is seen by then
}
}
