// Ranks that are threads of one process, for tests.
#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "core/cluster/ranks/ranks.h"

namespace moescope {

class LocalRanks : public Ranks {
 public:
  struct Board {
    explicit Board(int size) : barrier(size), send(static_cast<std::size_t>(size)), parts(send.size()) {}
    std::barrier<> barrier;
    std::vector<const void*> send;
    std::vector<const Parts*> parts;
  };
  LocalRanks(Board& board, int rank, int ranks_per_node, bool over_nodes)
      : Ranks(ranks_per_node, over_nodes), board_(board), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(board_.send.size()); }

  void exchange(int partner, const void* send, void* receive, std::size_t bytes) override {
    meet(send, nullptr, [&] { std::memcpy(receive, board_.send[static_cast<std::size_t>(partner)], bytes); });
  }
  void gather_all(const void* own_bytes, std::size_t bytes, void* all) override {
    meet(own_bytes, nullptr, [&] {
      for (std::size_t r = 0; r < board_.send.size(); ++r)
        std::memcpy(static_cast<char*>(all) + r * bytes, board_.send[r], bytes);
    });
  }

 protected:
  void send_to_all(const void* send, const Parts& sent, void* receive, const Parts& received) override {
    const auto me = static_cast<std::size_t>(rank_);
    meet(send, &sent, [&] {
      for (std::size_t r = 0; r < board_.send.size(); ++r) {
        const Parts& theirs = *board_.parts[r];
        if (theirs.bytes[me] != received.bytes[r]) std::abort();
        if (received.bytes[r] == 0) continue;
        std::memcpy(static_cast<char*>(receive) + received.offset[r],
                    static_cast<const char*>(board_.send[r]) + theirs.offset[me], received.bytes[r]);
      }
    });
  }

 private:
  void meet(const void* send, const Parts* parts, const std::function<void()>& copy) {
    board_.send[static_cast<std::size_t>(rank_)] = send;
    board_.parts[static_cast<std::size_t>(rank_)] = parts;
    board_.barrier.arrive_and_wait();
    copy();
    board_.barrier.arrive_and_wait();
  }

  Board& board_;
  int rank_;
};

// Calls body(ranks) in `size` threads, one per rank, and waits until all have returned.
inline void run_local_ranks(int size, int ranks_per_node, bool over_nodes, const std::function<void(Ranks&)>& body) {
  LocalRanks::Board board(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      LocalRanks ranks(board, r, ranks_per_node, over_nodes);
      body(ranks);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace moescope
