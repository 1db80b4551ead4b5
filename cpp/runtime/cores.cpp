#include "runtime/cores.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "runtime/process.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace mm {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr int most_cores = 1 << 20;

// The quota that one cgroup sets, in cores. A file that does not exist or says "max" or -1 sets none.
double quota_of(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream both(folder + "/cpu.max");  // version 2
  if (!(both >> quota >> period)) {
    std::ifstream of_quota(folder + "/cpu.cfs_quota_us"), of_period(folder + "/cpu.cfs_period_us");
    if (!(of_quota >> quota) || !(of_period >> period)) return unlimited;
  }
  return quota > 0 && period > 0 ? quota / period : unlimited;
}

// The smallest quota of a cgroup and of all cgroups above it. A container may see the path of the host. Then only the
// folder `top` exists.
double least_quota(const std::string& top, std::string path) {
  double least = quota_of(top);
  for (; path.size() > 1; path.resize(path.rfind('/'))) least = std::min(least, quota_of(top + path));
  return least;
}

// Whether a list such as "cpu,cpuacct" names the controller of CPU time.
bool has_cpu(std::string_view controllers) {
  while (true) {
    const size_t end = controllers.find(',');
    if (controllers.substr(0, end) == "cpu") return true;
    if (end == std::string_view::npos) return false;
    controllers.remove_prefix(end + 1);
  }
}

// MAXMARGIN_CORES; 0 if it is not set.
int cores_of_environment() {
  const char* text = std::getenv("MAXMARGIN_CORES");
  if (!text) return 0;
  const std::string_view given(text);
  int cores = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), cores);
  if (error != std::errc() || end != given.data() + given.size() || cores < 1 || cores > most_cores)
    throw std::invalid_argument("MAXMARGIN_CORES must be a whole number from 1 to " +
                                std::to_string(most_cores) + ", got \"" + std::string(given) +
                                "\". Set it to the number of cores to use, or unset it.");
  return cores;
}

int cores_of_affinity() {
#if defined(__linux__)
  for (int size = 1024; size <= most_cores; size *= 2) {  // the system rejects a set that is too small
    cpu_set_t* set = CPU_ALLOC(size);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(size);
    const int cores = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (cores > 0) return cores;
  }
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The limits that are read once per process. Positive: the number in the environment. Negative: the quota, rounded up.
int limit_of_process() {
  const int given = cores_of_environment();
  if (given > 0) return given;
  const double quota = std::ceil(cgroup_cores(""));
  return -static_cast<int>(std::clamp<double>(quota, 1, most_cores));
}

std::atomic<uint64_t> known_limit = 0;  // the generation of the process, then its limit; 0: unknown

}  // namespace

double cgroup_cores(const std::string& root) {
  const std::string top = root + "/sys/fs/cgroup";
  double least = unlimited;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, least_quota(top, path));
    if (has_cpu(controllers)) least = std::min(least, least_quota(top + "/cpu", path));
  }
  return least;
}

int usable_cores() {
  const uint64_t process = uint64_t{process_generation()} << 32;
  uint64_t known = known_limit.load(std::memory_order_relaxed);
  if (known >> 32 != process >> 32 || static_cast<uint32_t>(known) == 0) {
    known = process | static_cast<uint32_t>(limit_of_process());
    known_limit.store(known, std::memory_order_relaxed);
  }
  const int limit = static_cast<int32_t>(static_cast<uint32_t>(known));
  return limit > 0 ? limit : std::min(-limit, cores_of_affinity());
}

}  // namespace mm
