// The number of cores that this process may use. More running threads than cores only take time from each other.
#pragma once

#include <string>

namespace mm {

// At least 1. The smallest of three limits: the cores of the machine, the affinity of the calling thread, and the CPU
// quota of the cgroups of this process, rounded up. The environment variable MAXMARGIN_CORES overrides all three.
//
// Affinity is read at every call. The variable and the quota are read once per process: a child made by fork() reads
// them again. Throws std::invalid_argument if the variable is not a whole number of 1 or more.
int usable_cores();

// The CPU quota of the cgroups (version 1 and 2) of this process, in cores; infinity if there is none. The files are
// those under `root`: "" for the system, another folder in tests.
double cgroup_cores(const std::string& root);

}  // namespace mm
