// Checks the promises of cpp/runtime and cpp/gram.hpp in a program without Python. Prints one line for each promise that
// holds.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gram.hpp"
#include "runtime/crew.hpp"
#include "runtime/threads.hpp"

using namespace mm;

static void require(bool holds, const char* what) {
  std::printf("%s: %s\n", holds ? "holds" : "FAILS", what);
}

// An inner team fails and is done with; the outer team has failed already, and must remain so.
static void nested_teams() {
  std::atomic<bool> inner_done = false, outer_left = false;
  bool failed = false;
  try {
    parallel_parts(2, 2, [&](int64_t, int64_t, int part) {
      if (part == 1) {
        while (!inner_done) std::this_thread::yield();
        throw std::runtime_error("the outer part");
      }
      try {
        parallel_parts(2, 2, [](int64_t, int64_t, int k) {
          if (k == 0) throw std::runtime_error("an inner part");
        });
      } catch (const std::runtime_error&) {
      }
      inner_done = true;
      try {
        for (;;) parallel_parts(2, 2, [](int64_t, int64_t, int) { poll(); });
      } catch (const Abandoned&) {
        outer_left = true;
        throw;
      }
    });
  } catch (const std::runtime_error& error) {
    failed = std::string(error.what()) == "the outer part";
  }
  require(failed && outer_left, "a member of a failed team leaves, also from teams inside");
  int done = 0;
  parallel_parts(1, 1, [&](int64_t, int64_t, int) { poll(), ++done; });
  require(done == 1, "a failed team leaves nothing behind");
}

static void parts_of_a_range() {
  std::vector<int> seen(1000, 0), owner(1000, -1);
  std::atomic<int> calls = 0;
  std::set<std::thread::id> threads;
  std::mutex lock;
  parallel_parts(1000, 37, [&](int64_t from, int64_t to, int part) {
    ++calls;
    for (int64_t i = from; i < to; ++i) ++seen[i], owner[i] = part;
    const std::scoped_lock own(lock);
    threads.insert(std::this_thread::get_id());
  });
  const bool once = std::accumulate(seen.begin(), seen.end(), 0) == 1000 &&
                    *std::min_element(seen.begin(), seen.end()) == 1;
  require(once && calls == 37 && owner[0] == 0 && owner[999] == 36,
          "every part is done once, whatever the cores");
  require(static_cast<int>(threads.size()) <= usable_cores(), "no more threads than cores");
  calls = 0;
  parallel(1000, 64, [&](int64_t, int64_t, int) { ++calls; });
  require(calls == std::min(64, usable_cores()), "parallel has as many parts as cores");
}

static void crew_shares_work() {
  Crew crew;
  std::atomic<int> next = 0, done = 0;
  for (int turn = 0; turn < 50; ++turn) {
    next = 0;
    crew.together(3, [&](int) {
      while (next.fetch_add(1) < 100) ++done;
    });
  }
  require(done == 5000, "a crew does all of the work, each time");
}

// A cache of two blocks, asked by several threads at once: rows stay valid while others replace them.
static void gram_for_threads() {
  constexpr int64_t n = 40;
  Gram gram(n, 3, 2, [](int64_t first, int64_t last, double* rows) {
    for (int64_t r = first; r < last; ++r)
      for (int64_t j = 0; j < n; ++j) *rows++ = static_cast<double>(r * n + j);
  });
  std::atomic<int> wrong = 0;
  parallel_parts(8, 8, [&](int64_t, int64_t, int part) {
    for (int k = 0; k < 500; ++k) {
      const int64_t r = (k * 7 + part * 11) % n;
      const Gram::Row row = gram.row(r);
      std::this_thread::yield();
      for (int64_t j = 0; j < n; ++j) wrong += row[j] != static_cast<double>(r * n + j);
    }
  });
  require(wrong == 0, "rows of a kernel matrix are right for several threads");
  require(gram.most_bytes() <= 2 * 3 * n * 8, "the cache keeps its size");
}

int main() {
  nested_teams();
  parts_of_a_range();
  crew_shares_work();
  gram_for_threads();
}
