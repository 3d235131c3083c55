// Parallel loops over a fixed number of tasks.
//
// Who runs a task never changes what it computes: what is added up together follows from the sizes of the work alone,
// never from the number of threads, and partial sums are added in task order afterwards. So results are bit-identical
// for any thread count.
//
// A thread begins with neighbouring tasks, the same ones in every loop of the same length, and then takes what is left
// of the others': rows that it wrote in one loop are still in its cache in the next.
//
// The threads are our own and not OpenMP's, because an OpenMP loop ends only when every thread of the team has come
// by, even if there was nothing left to do: beside a busy window on the same cores a step took many times as long. Here
// the caller waits only for tasks that somebody has begun, and a thread that comes late finds nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>

namespace moescope {

int num_threads();
void set_num_threads(int threads);  // 0: one per core; for the whole process, from the next loop on

// Runs call(body, task) for every task; see parallel_for.
void run_tasks(int tasks, void (*call)(const void* body, int task), const void* body);

// body(task) for every task in [0, tasks), in any order, on all threads; returns when all are done. Must not throw.
// Inside another loop, or while another thread runs one: one after the other on this thread.
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

// Jobs of many loops each, which go on at the same time, each with an equal share of the threads for its own loops.
// Where one job leaves threads waiting, because its loops are short, several of them use more of the machine.
class SideBySide {
 public:
  SideBySide();
  ~SideBySide();
  SideBySide(SideBySide&&) noexcept;
  SideBySide& operator=(SideBySide&&) noexcept;

  // Threads of each of so many jobs; 0: too few to share them.
  static int threads_for(int jobs);
  // job(i) for every i in [0, jobs); returns when all are done. Must not throw. One after the other, each on all
  // threads, where threads_for(jobs) is 0.
  void run(int jobs, const std::function<void(int)>& job);

 private:
  struct Teams;
  std::unique_ptr<Teams> teams_;
};

// Memory of the calling thread for one task's temporaries, 64-byte aligned; valid until the thread's next call.
void* thread_scratch_bytes(std::size_t bytes);

template <class T>
T* thread_scratch(std::size_t count) {
  return static_cast<T*>(thread_scratch_bytes(count * sizeof(T)));
}

}  // namespace moescope
