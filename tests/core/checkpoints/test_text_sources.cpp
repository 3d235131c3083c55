// Texts of a checkpoint's run, as its recording names them.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/checkpoints/text_sources.h"
#include "core/history/settings_track.h"

namespace moescope {
namespace {

LogSettings as_recorded(const TextSources& sources) {
  SettingsTrack track(RunInfo{});
  track.add(Marker{0, 0, kSettingsMarker, settings_json(sources, "sigmoid")});
  return track.at(0)->log();
}

TEST(TextSources, ARecordingNamesThemByAbsolutePaths) {
  const TextSources sources{
      .texts = {"a \"b\".txt", "/x/../y/folder"}, .token_ids = {"/ids"}, .prompt = "A text, \xc3\xa4", .length = 64};
  const LogSettings recorded = as_recorded(sources);
  EXPECT_EQ(recorded.at("score_func"), "sigmoid");
  const auto read = text_sources_in(recorded);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->texts,
            (std::vector<std::string>{(std::filesystem::current_path() / "a \"b\".txt").string(), "/y/folder"}));
  EXPECT_EQ(read->token_ids, std::vector<std::string>{"/ids"});
  EXPECT_EQ(read->prompt, "A text, \xc3\xa4");
  EXPECT_EQ(read->length, 64);
}

TEST(TextSources, OtherSettingsNameNone) {
  EXPECT_FALSE(text_sources_in({}));
  EXPECT_FALSE(text_sources_in({{"score_func", "softmax"}, {"piece_tokens", "512"}}));
  EXPECT_FALSE(text_sources_in({{"texts", "[\"a\"]"}, {"piece_tokens", "many"}}));
  EXPECT_FALSE(text_sources_in({{"texts", "[\"a\"]"}, {"piece_tokens", "1"}}));
  EXPECT_FALSE(text_sources_in({{"texts", "[1"}}));
  EXPECT_TRUE(text_sources_in({{"texts", "[\"a\", 3]"}}));
}

}  // namespace
}  // namespace moescope
