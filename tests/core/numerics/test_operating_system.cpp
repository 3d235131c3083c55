// What the program asks of the operating system. tests/portable runs this with the branches for systems other than
// Linux.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "core/numerics/operating_system.h"

namespace moescope {
namespace {

TEST(OperatingSystem, ThePathOfTheProgramCanBeStarted) {
  EXPECT_EQ(::access(program_path().c_str(), X_OK), 0) << program_path();
}

TEST(OperatingSystem, UsableProcessorsAreAtMostThoseOfTheMachine) {
  EXPECT_GE(usable_processors(), 1u);
  EXPECT_LE(usable_processors(), std::max(1u, std::thread::hardware_concurrency()));
}

TEST(OperatingSystem, PipesDoNotWaitAndAreClosedInOtherPrograms) {
  int ends[2] = {-1, -1};
  ASSERT_TRUE(make_pipe(ends));
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  for (const int end : ends) {
    EXPECT_TRUE(::fcntl(end, F_GETFD) & FD_CLOEXEC);
    ::close(end);
  }
}

}  // namespace
}  // namespace moescope
