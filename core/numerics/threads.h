// Parallel loops over a fixed number of tasks, on OpenMP's threads.
//
// Results are bit-identical for any number of threads: which values form a partial sum depends on the size of the work
// alone, and partial sums are added in task order afterwards.
//
// An `omp for` loop ends only when every thread of the team has arrived, even if no task is left. When a window was
// busy on the same cores, a step took nearly twice as long. Therefore a loop is an `omp taskloop`: its caller waits for
// the tasks only, runs tasks that no thread has begun, and is not delayed by a late thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/numerics/index.h"

namespace moescope {

inline constexpr int kMaxThreadCount = 1024;  // however the number is asked for: --threads, OMP_NUM_THREADS
// Returns "OMP_NUM_THREADS is 5000: 1024 threads are used, the most that are allowed" if OpenMP's number is above the
// limit; else an empty text.
std::string thread_limit_note();

// Returns the number of threads of the next team: the number given to set_num_threads(), or else OpenMP's number
// (OMP_NUM_THREADS, or the processors that taskset, a container or a batch system leaves to this process).
int num_threads();
void set_num_threads(int threads);  // 0: OpenMP's number; for the whole process

// Calls body(task) for every task in [0, tasks), in any order, on the threads of the team; returns when all are done.
// body must not throw. Inside another loop, and while another thread of the process has the team, all tasks run on the
// calling thread.
void parallel_for(int tasks, const std::function<void(int task)>& body);

// Calls body(first, last) for consecutive slices of at most `slice` of [0, count).
template <class Body>
void parallel_slices(std::size_t count, std::size_t slice, const Body& body) {
  const int tasks = to_int((count + slice - 1) / slice);
  parallel_for(tasks, [&](int task) {
    const std::size_t first = task * slice;
    body(first, std::min(first + slice, count));
  });
}

template <class T>
void parallel_copy(const T* from, std::size_t count, T* to) {
  constexpr std::size_t kSlice = 1 << 16;
  parallel_slices(count, kSlice,
                  [&](std::size_t first, std::size_t last) { std::copy(from + first, from + last, to + first); });
}

// Runs body() with one team for all of its loops. Starting a team for each of the hundreds of loops of a training step
// would cost more than the short loops take. Rethrows the exceptions of body().
void with_team(const std::function<void()>& body);

// Returns the number of threads for each of `jobs` jobs that run side by side; 0 if there are too few threads to share.
int threads_per_job(int jobs);
// Calls job(i) for every i in [0, jobs), side by side, each with an equal share of the threads for its own loops;
// returns when all are done. job must not throw. Jobs side by side use more of the machine if their loops are short and
// leave threads waiting. If threads_per_job(jobs) is 0, jobs run one after the other, each on all threads.
void side_by_side(int jobs, const std::function<void(int)>& job);

// Memory of the calling thread for the temporaries of one task, 64-byte aligned; valid until the thread's next call.
void* thread_scratch_bytes(std::size_t bytes);

template <class T>
T* thread_scratch(std::size_t count) {
  return static_cast<T*>(thread_scratch_bytes(count * sizeof(T)));
}

// Memory that grows as needed and begins on a cache line. Growing it loses its contents.
template <class N>
class AlignedBuffer {
 public:
  N* sized(std::size_t count) {
    constexpr std::size_t kLine = 64 / sizeof(N);
    if (memory_.size() < count + kLine) memory_.resize(count + kLine);
    void* begin = memory_.data();
    std::size_t bytes = memory_.size() * sizeof(N);
    return static_cast<N*>(std::align(64, count * sizeof(N), begin, bytes));
  }

 private:
  std::vector<N> memory_;
};

}  // namespace moescope
