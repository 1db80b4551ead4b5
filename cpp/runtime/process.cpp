#include "runtime/process.hpp"

#include <atomic>

#if __has_include(<unistd.h>)
#include <pthread.h>
#endif

namespace mm {
namespace {

std::atomic<uint32_t> forks = 0;
#if __has_include(<unistd.h>)
// Registered when the module is loaded, before any pool exists.
[[maybe_unused]] const int counts_forks = pthread_atfork(nullptr, nullptr, [] { ++forks; });
#endif

}  // namespace

uint32_t process_generation() { return forks.load(std::memory_order_relaxed); }

}  // namespace mm
