// Parallel loops over a fixed number of tasks.
//
// Who runs a task never changes what it computes: tasks are cut by the sizes of the work alone, never by the number
// of threads, and partial sums are added in task order afterwards. So results are bit-identical for any thread count.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace moescope {

int num_threads();
void set_num_threads(int threads);  // 0: one per core; for the whole process, from the next loop on

// body(task) for every task in [0, tasks), in any order. Must not throw. Inside another loop: one after the other.
template <class Body>
void parallel_for(int tasks, const Body& body) {
#ifdef _OPENMP
  if (tasks > 1 && num_threads() > 1 && !omp_in_parallel()) {
    // Always the full team: libgomp ends and restarts threads when the team's size changes.
#pragma omp parallel for schedule(dynamic, 1) num_threads(num_threads())
    for (int task = 0; task < tasks; ++task) body(task);
    return;
  }
#endif
  for (int task = 0; task < tasks; ++task) body(task);
}

// body(first, last) for consecutive slices of at most `slice` of [0, count).
template <class Body>
void parallel_slices(std::size_t count, std::size_t slice, const Body& body) {
  const int tasks = static_cast<int>((count + slice - 1) / slice);
  parallel_for(tasks, [&](int task) {
    const std::size_t first = static_cast<std::size_t>(task) * slice;
    body(first, std::min(first + slice, count));
  });
}

// Memory of the calling thread for one task's temporaries, 64-byte aligned; valid until the thread's next call.
void* thread_scratch_bytes(std::size_t bytes);

template <class T>
T* thread_scratch(std::size_t count) {
  return static_cast<T*>(thread_scratch_bytes(count * sizeof(T)));
}

}  // namespace moescope
