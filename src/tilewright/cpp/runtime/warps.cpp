// Runs the blocks of kernels whose lanes wait for each other: each warp from barrier to barrier, all lanes at once while
// they are at one place.
#include "simt.h"

namespace tilewright {

// Kinds of barriers: the end of a loop, its next iteration, and where lanes of a warp give words of 8 and of 4 bytes.
enum : int { leaves = 3, yields = 5, meets = 4, meets_halves = 7 };

static unsigned long long run_region(worker* mine, unsigned const* coordinates, warp& self, unsigned place, unsigned mask,
                                     unsigned* sum) {
    launch* run = mine->run;
    return run->what.regions[place](run->slots, coordinates, unsigned(&self - mine->warps) * 32, mask,
                                    self.given->words, self.taken->words, self.masks, self.ended, unsigned(mine->outcome), sum);
}
// Whether the masks of lanes that are at one place divide these into groups, each of which has one mask: then all meet.
extern "C" bool __tw_simt_parts(unsigned const* masks, unsigned lanes) {
    unsigned const all = lanes < 32 ? (1u << lanes) - 1 : ~0u;
    unsigned wrong = 0, sum = 0;
    for (unsigned i = 0; i < lanes; ++i) {
        unsigned const mask = masks[i] & all, first = unsigned(__builtin_ctz(mask | 1u << 31));
        wrong |= (~mask >> i & 1) | (masks[first] ^ masks[i]);
        sum += first == i ? unsigned(__builtin_popcount(mask)) : 0;  // groups with members that say otherwise are too many
    }
    return !wrong && sum == lanes;
}
static unsigned every_lane(warp const& self) { return self.lanes < 32 ? (1u << self.lanes) - 1 : ~0u; }

// What a thread does that ended a region at `place`: it has ended, goes on, or waits.
static state state_at(simt_code const& what, unsigned place) {
    if (place == 0) return state::done;
    int kind = what.kinds[place - 1];
    if (kind == spins) return state::spinning;
    return kind == leaves || kind == yields ? state::ready : kind == meets || kind == meets_halves ? state::at_exchange : state::at_barrier;
}
// The lanes for which a condition holds. Loops over all 32 without branches become vectors, also where there are fewer.
template <typename F>
static unsigned set_of(warp const& self, F holds) {
    using bytes = unsigned char __attribute__((ext_vector_type(32)));
    using bits = bool __attribute__((ext_vector_type(32)));
    unsigned char found[32];
    for (unsigned i = 0; i < 32; ++i) found[i] = holds(i);
    return __builtin_bit_cast(unsigned, __builtin_convertvector(__builtin_bit_cast(bytes, found), bits)) & every_lane(self);
}
static unsigned lanes_at(warp const& self, unsigned place) {
    return set_of(self, [&](unsigned i) { return self.places[i] == place; });
}
static unsigned lanes_in(warp const& self, state now) {
    return set_of(self, [&](unsigned i) { return self.each[i] == now; });
}
template <typename T>
static void give(T* values, unsigned lanes, T value) {
    for (unsigned i = 0; i < 32; ++i) values[i] = lanes >> i & 1 ? value : values[i];
}
// Notes that lanes have come to `place`.
static void arrive(simt_code const& what, warp& self, unsigned lanes, unsigned place) {
    state const now = state_at(what, place);
    give(self.places, lanes, place);
    give(self.each, lanes, now);
    if (now == state::at_exchange && what.masks[place - 1] >= 0) give(self.masks, lanes, unsigned(what.masks[place - 1]));
}
// Notes where lanes have come to that ended a region, at the barriers `found`.
static void arrive_each(simt_code const& what, warp& self, unsigned lanes, unsigned long long found) {
    for (; found; found &= found - 1) {
        unsigned const end = unsigned(__builtin_ctzll(found));
        bool const last = !(found & (found - 1));
        unsigned const here = last ? lanes : lanes & set_of(self, [&](unsigned i) { return self.ended[i] == end; });
        arrive(what, self, here, end);
        lanes &= ~here;
    }
}
static void part(simt_code const& what, warp& self) {
    self.together = false;
    arrive(what, self, every_lane(self), self.at);
}
// What lanes `from` give, and 0 from those of `none`.
template <typename T>
static void take(T* __restrict taken, T const* __restrict given, unsigned from, unsigned none) {
    for (unsigned i = 0; i < 32; ++i) {
        T const before = taken[i], now = given[i];
        taken[i] = from >> i & 1 ? now : none >> i & 1 ? T(0) : before;
    }
}
// Gives the lanes of a mask what these give, if all of them are there. Lanes that have ended are missing. Others give 0,
// where nobody is about to read what they gave: published reductions shuffle from lanes that have ended.
static bool exchange(simt_code const& what, warp& self, unsigned mask) {
    unsigned const wanted = mask & every_lane(self);
    unsigned const come = set_of(self, [&](unsigned i) { return self.masks[i] == mask; }) & lanes_in(self, state::at_exchange);
    if (!wanted || wanted & ~come) return false;
    unsigned wide = 0;
    for (unsigned left = wanted; left;) {
        unsigned const place = self.places[__builtin_ctz(left)], here = left & lanes_at(self, place);
        if (what.kinds[place - 1] == meets) wide |= here;
        left &= ~here;
    }
    unsigned const none = ~wanted & ~lanes_in(self, state::ready), first = wanted & -wanted, halves = wanted & ~wide;
    if (wide) take(self.taken->words, self.given->words, wide, wide & first ? none : 0);
    if (halves) take(self.taken->halves, self.given->halves, halves, wide & first ? 0 : none);
    give(self.each, wanted, state::ready);
    return true;
}
// Lets the lanes that wait at the place of the lane `first` for whichever come there go on, with their mask.
static void meet_active(warp& self, unsigned first) {
    unsigned const without = set_of(self, [&](unsigned i) { return self.masks[i] == 0; });
    unsigned const active = without & lanes_in(self, state::at_exchange) & lanes_at(self, self.places[first]);
    give(self.taken->halves, active, active);
    give(self.each, active, state::ready);
}
// What a warp does, all of whose lanes have run a region, which they left at `found`: false once it has ended, waits, or
// has parted.
static bool went_on(worker* mine, warp& self, unsigned long long found) {
    simt_code const& what = mine->run->what;
    if (found & (found - 1)) {
        self.together = false;
        arrive_each(what, self, every_lane(self), found);
        return false;
    }
    self.at = unsigned(__builtin_ctzll(found));
    self.now = state_at(what, self.at);
    if (self.now != state::at_exchange) return self.now == state::ready;
    bool const fixed = what.masks[self.at - 1] >= 0;
    unsigned const mask = fixed ? unsigned(what.masks[self.at - 1]) : self.masks[0];
    bool meets = !mask || !(~mask & every_lane(self));
    for (unsigned i = 1; !fixed && i < self.lanes; ++i) meets &= self.masks[i] == mask;
    if (!meets && (fixed || !__tw_simt_parts(self.masks, self.lanes))) {
        part(what, self);
        return false;
    }
    if (mask) {
        lane_words* const before = self.taken;
        self.taken = self.given;
        self.given = before;
        passed_by_warp(mine, unsigned(&self - mine->warps));
    }
    else
        for (unsigned i = 0; i < 32; ++i) self.taken->halves[i] = every_lane(self);
    self.now = state::ready;
    return true;
}
// A step of a warp that is at one place: false as of `went_on`.
static bool step(worker* mine, unsigned const* coordinates, warp& self, unsigned* sum) {
    return went_on(mine, self, run_region(mine, coordinates, self, self.at, every_lane(self), sum));
}
// A step of a warp whose lanes have parted: false once none of them can go on.
static bool step_lanes(worker* mine, unsigned const* coordinates, warp& self, unsigned* sum) {
    simt_code const& what = mine->run->what;
    unsigned const ready = lanes_in(self, state::ready), place = ready ? self.places[__builtin_ctz(ready)] : 0;
    unsigned const mask = ready ? ready & lanes_at(self, place) : 0;
    if (mask == every_lane(self)) {
        self.together = true;
        self.at = place;
        self.now = state::ready;
        return false;
    }
    if (mask) {
        arrive_each(what, self, mask, run_region(mine, coordinates, self, place, mask, sum));
        return true;
    }
    bool met = false;
    unsigned stuck = 0;  // lanes
    for (unsigned left = lanes_in(self, state::at_exchange); left;) {
        unsigned const first = unsigned(__builtin_ctz(left)), wanted = self.masks[first];
        if (!wanted) {
            meet_active(self, first);
            ++mine->spin.moves;
        }
        else if (exchange(what, self, wanted)) passed_by_warp(mine, unsigned(&self - mine->warps));
        else {
            unsigned const same = left & set_of(self, [&](unsigned i) { return self.masks[i] == wanted; });
            stuck |= same;
            left &= ~same;
            continue;
        }
        met = true;
        left &= lanes_in(self, state::at_exchange);
    }
    if (!met && stuck && !lanes_in(self, state::spinning)) {  // those may come yet
        unsigned at = self.places[31 - __builtin_clz(stuck)] - 1;
        fail(mine->run, what.files[at], what.lines[at], lanes_missing);
    }
    return met;
}
// Lets the block go on from the barrier at `place`, at which `sum` threads have a predicate that holds.
static void pass(worker* mine, unsigned place, unsigned sum, unsigned threads) {
    int kind = mine->run->what.kinds[place - 1];
    passed_barrier(mine);
    mine->outcome = kind == 0 ? int(sum) : kind == 1 ? sum == threads : sum > 0;
}
// The barrier of the block at which all threads are, 0 if they have ended; failing if they are not.
static unsigned meet(worker* mine, unsigned warps) {
    simt_code const& what = mine->run->what;
    unsigned place = 0, done = 0;
    bool elsewhere = false;
    for (unsigned w = 0; w < warps; ++w)
        for (unsigned i = 0; i < mine->warps[w].lanes; ++i) {
            warp& self = mine->warps[w];
            state now = self.together ? self.now : self.each[i];
            unsigned at = self.together ? self.at : self.places[i];
            if (now == state::done) ++done;
            else if (!place) place = at;
            else elsewhere |= at != place;
        }
    if (!place || !(done || elsewhere)) return place;
    fail(mine->run, what.files[place - 1], what.lines[place - 1], elsewhere ? others_elsewhere : others_ended);
    return 0;
}

// Lets lanes that spin look again: whether there are some.
static bool look_again(worker* mine, warp& self) {
    simt_code const& what = mine->run->what;
    auto const looks = [&](state& now, unsigned place) {
        if (now != state::spinning) return false;
        now = state::ready;
        spin(mine, what.files[place - 1], what.lines[place - 1]);
        return true;
    };
    bool found = self.together && looks(self.now, self.at);
    for (unsigned i = 0; !self.together && i < self.lanes; ++i) found |= looks(self.each[i], self.places[i]);
    return found;
}

// Runs the whole ones of the warps, which are all at `at`, until the block has to meet: how many have come to `place`.
// What follows is at `at`, but for one of which its own state says more.
static unsigned run_together(worker* mine, unsigned const* coordinates, unsigned warps, unsigned at, unsigned* place,
                             unsigned* sum) {
    simt_code const& what = mine->run->what;
    warp* const all = mine->warps;
    unsigned whole = all[warps - 1].lanes == 32 ? warps : warps - 1;
    void* words[] = {all->buffers[0].words, all->buffers[1].words};
    progress reached{*sum, 0, 0, at};
    int found = whole ? what.all(mine->run->slots, coordinates, whole, at, unsigned(mine->outcome), words, all->masks,
                                 all->ended, &reached)
                      : -1;
    unsigned done = found < 0 ? 0 : unsigned(found);
    *sum = reached.sum;
    *place = reached.place;
    if (done == warps) return done;
    for (unsigned w = 0; w < warps; ++w) {
        warp& self = all[w];
        self.together = true;
        self.at = w < done ? *place : w < whole ? reached.begin : at;
        self.now = w < done ? state_at(what, self.at) : state::ready;
        self.given = &self.buffers[0];
        self.taken = &self.buffers[1];
    }
    if (found < 0 || done == whole || !reached.set) return done;
    warp& parted = all[done];
    if (done) {  // the words are those of the first warp
        memcpy(parted.masks, all->masks, sizeof parted.masks);
        memcpy(parted.ended, all->ended, sizeof parted.ended);
        memcpy(parted.buffers, all->buffers, sizeof parted.buffers);
    }
    if (words[0] != all->buffers[0].words) {
        parted.given = &parted.buffers[1];
        parted.taken = &parted.buffers[0];
    }
    went_on(mine, parted, reached.set);
    return done;
}
// Runs warps, each for itself, until the block has to meet.
static bool run_apart(worker* mine, unsigned const* coordinates, unsigned warps, unsigned* sum) {
    launch* run = mine->run;
    for (unsigned round = 0;; ++round) {
        bool again = false;
        begin_round(mine);
        for (unsigned w = 0; w < warps; ++w) {
            warp& self = mine->warps[w];
            do {
                while (self.together && self.now == state::ready && step(mine, coordinates, self, sum)) {}
                while (!self.together && step_lanes(mine, coordinates, self, sum)) {}
            } while (self.together && self.now == state::ready);
            if (__atomic_load_n(&run->failed, __ATOMIC_RELAXED)) return false;
            again |= look_again(mine, self);
        }
        if (!again) return true;
        if (!end_round(mine, round)) return false;
    }
}

void run_by_warps(worker* mine, unsigned const* coordinates) {
    launch* run = mine->run;
    unsigned threads = run->block[0] * run->block[1] * run->block[2], warps = (threads + 31) / 32;
    unsigned at = 0, sum = 0;
    do {
        unsigned place = 0;
        if (run_together(mine, coordinates, warps, at, &place, &sum) < warps) {
            if (!run_apart(mine, coordinates, warps, &sum)) return;
            place = meet(mine, warps);
        }
        at = place;
        if (at) pass(mine, at, sum, threads);
        sum = 0;
    } while (at);
}

}  // namespace tilewright
