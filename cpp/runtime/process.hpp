// Identifies the process: a child made by fork() has the memory of its parent, but only one of its threads.
#pragma once

#include <cstdint>

namespace mm {

// The number of forks between the process that loaded the core and this one. If a pool of threads was made at another
// number, its threads belong to another process and do not exist in this process.
uint32_t process_generation();

}  // namespace mm
