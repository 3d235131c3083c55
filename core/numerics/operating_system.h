// What the program asks of the operating system beyond POSIX. MOESCOPE_PORTABLE chooses the branch for systems other
// than Linux, so that tests/portable compiles and runs it here.
#pragma once

#include <cstddef>
#include <string>

#if defined(__linux__) && !defined(MOESCOPE_PORTABLE)
#define MOESCOPE_ON_LINUX 1
#else
#define MOESCOPE_ON_LINUX 0
#endif

namespace moescope {

std::string program_path();       // path of the running program, to start it again and to find files beside it
std::size_t usable_processors();  // number of processors that this process may use, at least 1
// Makes a pipe whose ends do not wait and are closed in programs that this process starts. Returns false if it cannot.
bool make_pipe(int (&ends)[2]);

}  // namespace moescope
