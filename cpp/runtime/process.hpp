// Which process this is: a child made by fork() has the memory of its parent, but only one of its threads.
#pragma once

#include <cstdint>

namespace mm {

// The number of forks between the process that loaded the core and this one. A pool of threads that was made at another
// number belongs to another process: this process has none of its threads.
uint32_t process_generation();

}  // namespace mm
