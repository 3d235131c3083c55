// The rows of a part of a recording, with the arrays of some of its frames.
#include <gtest/gtest.h>

#include <string>

#include "core/files/sqlite.h"
#include "core/recording/frame_reader.h"
#include "core/recording/recording.h"
#include "tests/support/recording_file.h"

namespace moescope {
namespace {

TEST(FrameReader, ReadsTheRowsOfEveryThirdFrameOfARange) {
  const std::string path = temporary_file("every_third.moescope");
  write_run(path, 20);
  Connection connection(path, SQLITE_OPEN_READONLY);
  const RunInfo info = RecordingReader(path).runs().front();
  FrameReader reader(connection, info, 3);
  EXPECT_TRUE(reader.seeks());
  reader.seek(5, 9);
  std::int64_t id = 0;
  for (std::int64_t expected_id = 5; expected_id <= 9; ++expected_id) {
    const auto frame = reader.next(id);
    ASSERT_TRUE(frame);
    EXPECT_EQ(id, expected_id);
    EXPECT_EQ(frame->routers.empty(), (id - 5) % 3 != 0) << id;
    EXPECT_FALSE(is_missing(frame->ce_loss));
  }
  EXPECT_FALSE(reader.next(id));
  reader.seek(2);
  EXPECT_EQ(reader.next(id)->routers.size(), info.moe_layers.size());
  EXPECT_EQ(id, 2);
}

}  // namespace
}  // namespace moescope
