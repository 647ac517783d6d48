// Under the sanitizer: memory that the program uses before it has waited for the work that writes it, and memory of the
// device that it uses itself. Until it has, or while no work is done, nobody may touch the pages, so that the first access is
// a fault, which says where it is.
#include "runtime.h"
#include <sys/mman.h>

extern "C" int backtrace(void** found, int room) __attribute__((weak));  // of glibc

namespace tilewright {

constexpr size_t widest = 16;  // bytes of an element, of which some may be as before
constexpr size_t most_compared = size_t(32) << 20;  // bytes of memory of which it is kept what a kernel changes

struct result {
    size_t start, end;
    turn number;
    char const* by;
};
struct host_use {
    char const* category;
    void* found[frames];  // addresses of code
    int count;
    char text[192];
};
static list<result> results;
static list<host_use> host_uses;
static unsigned in_work = 0, in_device_work = 0;  // threads that may access all memory; and those that are not the host's
static thread_local list<result> own_results;
static thread_local bool are_public = false;

static void set_closed(pages const& what, bool closed) {
    if (*what.closed == closed) return;
    mprotect((void*)what.start, what.end - what.start, closed ? PROT_NONE : PROT_READ | PROT_WRITE);
    *what.closed = closed;
}
void close_pages() {
    if (!checking()) return;
    locked here;
    list<pages> all = watched_pages();
    for (pages const& each : all) {
        bool used = each.of_device;
        for (result const& one : results) used |= one.start < each.end && one.end > each.start;
        set_closed(each, used && (each.of_device ? in_device_work : in_work) == 0);
    }
    all.clear();
}
void begin_results(bool by_host) {
    locked here;
    bool const first = in_work++ == 0, first_of_device = !by_host && in_device_work++ == 0;
    if (first || first_of_device) close_pages();
}
void end_results(turn number, bool by_host) {
    locked here;
    for (result const& each : own_results) results.add({each.start, each.end, number, each.by});
    own_results.clear();
    bool const last = --in_work == 0, last_of_device = !by_host && --in_device_work == 0;
    if (last || last_of_device) close_pages();
}
void note_result(void const* start, size_t size, char const* by) {
    if (checking()) own_results.add({size_t(start), size_t(start) + size, {}, by});
}
void forget_results(size_t start, size_t end) {
    locked here;
    for (size_t i = results.count; i-- > 0;)
        if (results[i].start < end && results[i].end > start) results.remove(i);
}
void results_are_public() { are_public = true; }

kernel_results::kernel_results(char const* name, bool wanted) : name(name) {
    are_public = false;
    size_t bytes = 0;
    if (wanted) all = watched_pages();
    for (size_t i = all.count; i-- > 0;)
        if (all[i].of_device) all.remove(i);
    for (pages const& each : all) bytes += each.end - each.start;
    if (bytes > most_compared) all.clear();
    for (pages const& each : all)
        before.add((unsigned char*)memcpy(malloc(each.end - each.start), (void*)each.start, each.end - each.start));
}
kernel_results::~kernel_results() {
    for (size_t i = 0; i < all.count; ++i) {
        size_t first = 0, last = all[i].end - all[i].start;
        auto* now = (unsigned char*)all[i].start;
        bool const same = are_public || memcmp(now, before[i], last) == 0;
        while (!same && now[first] == before[i][first]) ++first;
        while (!same && now[last - 1] == before[i][last - 1]) --last;
        if (!same) note_result(now + first / widest * widest, last - first / widest * widest, name);
        free(before[i]);
    }
    all.clear();
    before.clear();
}

void report_host_uses() {
    for (host_use const& each : host_uses) note_at_frames(each.category, each.text, each.found, each.count);
    locked here;
    host_uses.clear();
}
void results_are_joined() {
    if (!checking()) return;
    report_host_uses();
    locked here;
    for (size_t i = results.count; i-- > 0;)
        if (is_joined(results[i].number) || !holds((void*)results[i].start, 1)) results.remove(i);
    close_pages();
}
// What is wrong with an access of memory that was closed, in words for `use`: its category, or null.
static char const* misused(pages const& what, size_t at, host_use& use, char const* does) {
    if (what.of_device) {
        snprintf(use.text, sizeof use.text, "host code %s memory of the device, which only kernels and copies can use", does);
        return "host-access";
    }
    for (result const& each : results) {
        if (at < each.start || at >= (each.end + widest - 1) / widest * widest) continue;
        snprintf(use.text, sizeof use.text, "host code %s memory that %s writes, and has not waited for its end", does, each.by);
        return "unfinished-work";
    }
    return nullptr;
}
bool is_watched_use(void const* address, void const* counter, bool writes) {
    if (!checking()) return false;
    locked here;
    size_t const at = size_t(address);
    list<pages> all = watched_pages();
    bool found = false;
    for (pages const& each : all) {
        if (at < each.start || at >= each.end) continue;
        found = true;  // and opened by another thread since, if it is not closed
        if (!*each.closed) break;
        set_closed(each, false);
        host_use made{};
        if (each.of_device && writes) trust_memory();  // what it has written is not known
        if (!(made.category = misused(each, at, made, writes ? "writes" : "reads"))) break;
        made.count = backtrace ? backtrace(made.found, frames) : 0;
        for (int i = 0; i < made.count; ++i) made.found[i] = (char*)made.found[i] + (made.found[i] == counter);  // others are behind calls
        host_uses.add(made);
        break;
    }
    all.clear();
    return found;
}

}  // namespace tilewright
