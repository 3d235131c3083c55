// Parallel loops over a fixed number of tasks, on OpenMP's threads.
//
// Who runs a task never changes what it computes: what is added up together follows from the sizes of the work alone,
// never from the number of threads, and partial sums are added in task order afterwards. So results are bit-identical
// for any number of threads.
//
// An `omp for` loop ends only when every thread of the team has arrived, even if no task is left: beside a busy window
// on the same cores a step took nearly twice as long. So a loop is an `omp taskloop`: its caller waits for the tasks
// alone, runs those that no thread has begun, and a late thread delays nobody.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

namespace moescope {

// Threads of the next team: set_num_threads(), or else OpenMP's (OMP_NUM_THREADS, the processors that taskset, a
// container or a batch system leaves to this process).
int num_threads();
void set_num_threads(int threads);  // 0: OpenMP's; for the whole process

// Runs call(body, task) for every task; see parallel_for.
void run_tasks(int tasks, void (*call)(const void* body, int task), const void* body);

// body(task) for every task in [0, tasks), in any order, on the threads of the team; returns when all are done. Must
// not throw. Serial inside another loop, and where another thread of the process has the team.
template <class Body>
void parallel_for(int tasks, const Body& body) {
  run_tasks(
      tasks, [](const void* b, int task) { (*static_cast<const Body*>(b))(task); }, &body);
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

template <class T>
void parallel_copy(const T* from, std::size_t count, T* to) {
  constexpr std::size_t kSlice = 1 << 16;
  parallel_slices(count, kSlice,
                  [&](std::size_t first, std::size_t last) { std::copy(from + first, from + last, to + first); });
}

// Runs body() with one team for all of its loops: starting a team for each of the hundreds of loops of a training step
// would cost more than the short ones take. Passes on what body() throws.
void with_team(const std::function<void()>& body);

// Threads that each of so many jobs side by side would have; 0: too few to share.
int threads_per_job(int jobs);
// job(i) for every i in [0, jobs), side by side, each with an equal share of the threads for its own loops; returns
// when all are done. Must not throw. Where jobs have short loops, which leave threads waiting, several use more of the
// machine. One after the other, each on all threads, where threads_per_job(jobs) is 0.
void side_by_side(int jobs, const std::function<void(int)>& job);

// Memory of the calling thread for one task's temporaries, 64-byte aligned; valid until the thread's next call.
void* thread_scratch_bytes(std::size_t bytes);

template <class T>
T* thread_scratch(std::size_t count) {
  return static_cast<T*>(thread_scratch_bytes(count * sizeof(T)));
}

}  // namespace moescope
