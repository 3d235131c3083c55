// Ranks that are processes of MPI: the program starts itself under mpirun.
#include "core/cluster/ranks/mpi_ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/run_command.h"

namespace moescope {
namespace {

constexpr const char* kExpectedSize = "MOESCOPE_TEST_RANKS";  // set in the processes that mpirun starts

// Runs this test again in `started` processes, which expect to be `expected`.
Ended run_again(int started, int expected) {
  setenv(kExpectedSize, std::to_string(expected).c_str(), 1);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const Ended ended =
      run(std::string(MOESCOPE_MPIRUN) + " -n " + std::to_string(started) + " '" + self +
          "' --gtest_filter=" + testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() + '.' +
          testing::UnitTest::GetInstance()->current_test_info()->name());
  unsetenv(kExpectedSize);
  return ended;
}

// Byte `index` that a rank sends to another one.
char byte_of(int source, int destination, std::size_t index) {
  return static_cast<char>(60 * source + 13 * destination + static_cast<int>(index));
}

TEST(MpiRanks, ExchangeGatherAndSendToAll) {
  if (!std::getenv(kExpectedSize)) {
    const Ended ended = run_again(4, 4);
    ASSERT_EQ(ended.status, 0) << ended.output;
    return;
  }
  const std::unique_ptr<Ranks> ranks = mpi_ranks(4, 2, true);
  const int me = ranks->rank();
  EXPECT_EQ(ranks->size(), 4);
  EXPECT_EQ(ranks->ranks_on_machine(), 4);
  EXPECT_EQ(ranks->ranks_per_node(), 2);
  EXPECT_TRUE(ranks->over_nodes());

  std::vector<int> all(4), expected_all = {0, 10, 20, 30};
  const int own_number = 10 * me;
  ranks->gather_all(&own_number, sizeof own_number, all.data());
  EXPECT_EQ(all, expected_all);
  int partners = -1;
  ranks->exchange(me ^ 1, &own_number, &partners, sizeof own_number);
  EXPECT_EQ(partners, 10 * (me ^ 1));
  std::vector<double> sums = {1.0 + me, 100};
  sum_over_ranks(ranks.get(), std::span(sums));
  EXPECT_EQ(sums, (std::vector<double>{10, 400}));

  std::vector<std::size_t> to, from;
  for (int other = 0; other < 4; ++other) {
    to.push_back(static_cast<std::size_t>((me + 2 * other) % 3));
    from.push_back(static_cast<std::size_t>((other + 2 * me) % 3));
  }
  const Ranks::Parts sent(to), received(from);
  std::string bytes, arrived(received.total, '\0'), expected;
  for (int other = 0; other < 4; ++other) {
    for (std::size_t i = 0; i < to[static_cast<std::size_t>(other)]; ++i) bytes += byte_of(me, other, i);
    for (std::size_t i = 0; i < from[static_cast<std::size_t>(other)]; ++i) expected += byte_of(other, me, i);
  }
  ranks->all_to_all(bytes.data(), sent, arrived.data(), received);
  EXPECT_EQ(arrived, expected);
  const std::vector<std::uint64_t> counted = ranks->take_traffic().sent;
  EXPECT_EQ(std::vector<std::size_t>(counted.begin(), counted.end()), to);
}

TEST(MpiRanks, AnotherNumberOfProcessesIsRefused) {
  if (!std::getenv(kExpectedSize)) {
    const Ended ended = run_again(1, 2);
    ASSERT_EQ(ended.status, 0) << ended.output;
    return;
  }
  try {
    mpi_ranks(2, 1, false);
    FAIL() << "there is one process";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("--ep 2: mpirun started 1 process;"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace moescope
