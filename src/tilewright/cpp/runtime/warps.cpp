// Runs the blocks of kernels whose lanes wait for each other: each warp from barrier to barrier, all lanes at once while
// they are at one place.
#include "simt.h"

namespace tilewright {

// Kinds of barriers: the end of a loop, its next iteration, and where lanes of a warp give words of 8 and of 4 bytes.
enum : int { leaves = 3, yields = 5, meets = 4, meets_halves = 7 };

static unsigned run_region(worker* mine, unsigned const* coordinates, warp& self, unsigned place, unsigned mask,
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
// Notes that a lane has come to `place`.
static void arrive(simt_code const& what, warp& self, unsigned lane, unsigned place) {
    self.places[lane] = place;
    self.each[lane] = state_at(what, place);
    if (self.each[lane] == state::at_exchange && what.masks[place - 1] >= 0) self.masks[lane] = unsigned(what.masks[place - 1]);
}
static void part(simt_code const& what, warp& self) {
    self.together = false;
    for (unsigned i = 0; i < self.lanes; ++i) arrive(what, self, i, self.at);
}
// Gives the lanes of a mask what these give, if all of them are there. Lanes that have ended are missing. Others give 0,
// where nobody is about to read what they gave: published reductions shuffle from lanes that have ended.
static bool exchange(simt_code const& what, warp& self, unsigned mask) {
    unsigned wanted = mask & every_lane(self);
    if (!wanted) return false;
    for (unsigned i = 0; i < self.lanes; ++i)
        if ((wanted >> i & 1) && (self.each[i] != state::at_exchange || self.masks[i] != mask)) return false;
    for (unsigned i = 0; i < self.lanes; ++i)
        if (wanted >> i & 1) {
            if (what.kinds[self.places[i] - 1] == meets) self.taken->words[i] = self.given->words[i];
            else self.taken->halves[i] = self.given->halves[i];
            self.each[i] = state::ready;
        }
    bool const wide = what.kinds[self.places[__builtin_ctz(wanted)] - 1] == meets;
    for (unsigned i = 0; i < 32; ++i)
        if (!(wanted >> i & 1) && (i >= self.lanes || self.each[i] != state::ready)) {
            if (wide) self.taken->words[i] = 0;
            else self.taken->halves[i] = 0;
        }
    return true;
}
// Lets the lanes that wait at the place of the lane `first` for whichever come there go on, with their mask.
static void meet_active(warp& self, unsigned first) {
    unsigned active = 0, place = self.places[first];
    for (unsigned i = first; i < self.lanes; ++i)
        if (self.each[i] == state::at_exchange && !self.masks[i] && self.places[i] == place) active |= 1u << i;
    for (unsigned i = first; i < self.lanes; ++i)
        if (active >> i & 1) {
            self.taken->halves[i] = active;
            self.each[i] = state::ready;
        }
}
// What a warp does, all of whose lanes have run a region, which they left at `found`: false once it has ended, waits, or
// has parted.
static bool went_on(worker* mine, warp& self, unsigned found) {
    simt_code const& what = mine->run->what;
    if (found & (found - 1)) {
        self.together = false;
        for (unsigned i = 0; i < self.lanes; ++i) arrive(what, self, i, unsigned(__builtin_ctz(self.ended[i])));
        return false;
    }
    self.at = unsigned(__builtin_ctz(found));
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
    unsigned mask = 0, place = 0;
    for (unsigned i = 0; i < self.lanes; ++i) {
        if (self.each[i] != state::ready) continue;
        if (!mask) place = self.places[i];
        if (self.places[i] == place) mask |= 1u << i;
    }
    if (mask == every_lane(self)) {
        self.together = true;
        self.at = place;
        self.now = state::ready;
        return false;
    }
    if (mask) {
        run_region(mine, coordinates, self, place, mask, sum);
        for (unsigned i = 0; i < self.lanes; ++i)
            if (mask >> i & 1) arrive(what, self, i, unsigned(__builtin_ctz(self.ended[i])));
        return true;
    }
    bool met = false;
    unsigned stuck = 32;
    for (unsigned i = 0; i < self.lanes; ++i) {
        if (self.each[i] != state::at_exchange) continue;
        if (!self.masks[i]) {
            meet_active(self, i);
            met = true;
        }
        else if (exchange(what, self, self.masks[i])) {
            met = true;
            passed_by_warp(mine, unsigned(&self - mine->warps));
        }
        else stuck = i;
    }
    if (!met && stuck < 32) {
        unsigned at = self.places[stuck] - 1;
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
static bool look_again(warp& self) {
    bool found = self.together && self.now == state::spinning;
    if (found) self.now = state::ready;
    for (unsigned i = 0; !self.together && i < self.lanes; ++i)
        if (self.each[i] == state::spinning) {
            self.each[i] = state::ready;
            found = true;
        }
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
    if (found < 0 || done == whole) return done;
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
        for (unsigned w = 0; w < warps; ++w) {
            warp& self = mine->warps[w];
            do {
                while (self.together && self.now == state::ready && step(mine, coordinates, self, sum)) {}
                while (!self.together && step_lanes(mine, coordinates, self, sum)) {}
            } while (self.together && self.now == state::ready);
            if (__atomic_load_n(&run->failed, __ATOMIC_RELAXED)) return false;
            again |= look_again(self);
        }
        if (!again) return true;
        let_others_run(round);
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
