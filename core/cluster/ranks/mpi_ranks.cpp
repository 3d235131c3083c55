#include "core/cluster/ranks/mpi_ranks.h"

#include <fmt/core.h>

#include <stdexcept>

#ifdef MOESCOPE_MPI
#include <mpi.h>

#include <algorithm>
#include <limits>
#endif

namespace moescope {

#ifdef MOESCOPE_MPI
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;  // MPI counts are int

// An MPI error ends the program with MPI's own message: training cannot continue without a rank.
class MpiRanks : public Ranks {
 public:
  MpiRanks(int ranks_per_node, bool over_nodes) : Ranks(ranks_per_node, over_nodes) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm machine;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &size_here_);
    MPI_Comm_free(&machine);
  }
  ~MpiRanks() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int ranks_on_machine() const override { return size_here_; }

  void exchange(int partner, const void* send, void* receive, std::size_t bytes) override {
    for (std::size_t done = 0; done < bytes; done += kMaxBytes) {
      const int n = static_cast<int>(std::min(kMaxBytes, bytes - done));
      MPI_Sendrecv(static_cast<const char*>(send) + done, n, MPI_BYTE, partner, 0, static_cast<char*>(receive) + done,
                   n, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }

  void gather_all(const void* own_bytes, std::size_t bytes, void* all) override {
    const int n = count(bytes);
    MPI_Allgather(own_bytes, n, MPI_BYTE, all, n, MPI_BYTE, MPI_COMM_WORLD);
  }

 protected:
  void send_to_all(const void* send, const Parts& sent, void* receive, const Parts& received) override {
    const std::vector<int> send_bytes = counts(sent.bytes), send_at = counts(sent.offset);
    const std::vector<int> receive_bytes = counts(received.bytes), receive_at = counts(received.offset);
    MPI_Alltoallv(send, send_bytes.data(), send_at.data(), MPI_BYTE, receive, receive_bytes.data(), receive_at.data(),
                  MPI_BYTE, MPI_COMM_WORLD);
  }

 private:
  static int count(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::runtime_error(fmt::format(
          "an all-to-all of {} bytes is more than MPI takes at once; a smaller batch or more ranks would do", bytes));
    return static_cast<int>(bytes);
  }
  static std::vector<int> counts(const std::vector<std::size_t>& sizes) {
    std::vector<int> result;
    for (const std::size_t bytes : sizes) result.push_back(count(bytes));
    return result;
  }

  int rank_ = 0, size_ = 1, size_here_ = 1;
};

}  // namespace

std::unique_ptr<Ranks> mpi_ranks(int size, int ranks_per_node, bool over_nodes) {
  auto ranks = std::make_unique<MpiRanks>(ranks_per_node, over_nodes);
  if (ranks->size() != size)
    throw std::runtime_error(
        fmt::format("--ep {}: mpirun started {}{}; expected mpirun -n {} moescope-cli train --ep {} ...", size,
                    ranks->size(), ranks->size() == 1 ? " process" : " processes", size, size));
  return ranks;
}

#else

std::unique_ptr<Ranks> mpi_ranks(int size, int, bool) {
  throw std::runtime_error(
      fmt::format("--ep {}: this program was built without MPI; install libopenmpi-dev and build again", size));
}

#endif

}  // namespace moescope
