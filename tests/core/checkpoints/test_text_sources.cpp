// Texts of a checkpoint's run, as its recording names them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/checkpoints/text_sources.h"
#include "core/recording/history/settings_track.h"
#include "tests/support/problem_of.h"

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

TEST(TextSources, FilesThatAreNotUtf8AreNamed) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "moescope_text_sources";
  fs::remove_all(folder);
  fs::create_directories(folder / "more");
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  put("good.txt", "aa");
  put("latin1.txt", "a\ne\xe4");
  put("more/utf16.txt", std::string("\xff\xfe"
                                    "a\0",
                                    4));
  put("nul.txt", std::string("aaa\0aaa", 7));
  put("empty.txt", "");
  const Tokenizer tokenizer(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})", "tokenizer.json");
  const ReadTexts read = read_all({.texts = {folder.string()}}, &tokenizer);
  ASSERT_EQ(read.texts.size(), 1u);
  EXPECT_EQ(read.texts[0].ids, (std::vector<std::int32_t>{0, 0}));
  ASSERT_EQ(read.notes.size(), 3u);
  EXPECT_TRUE(read.notes[0].starts_with((folder / "latin1.txt").string() + ": left out: line 2: byte 0xe4"))
      << read.notes[0];
  EXPECT_TRUE(read.notes[1].starts_with((folder / "more/utf16.txt").string() + ": left out: is UTF-16"))
      << read.notes[1];
  EXPECT_TRUE(read.notes[2].starts_with((folder / "nul.txt").string() + ": left out: has NUL bytes")) << read.notes[2];
  EXPECT_THROW(read_all({.texts = {(folder / "latin1.txt").string()}}, &tokenizer), std::runtime_error);
  fs::remove_all(folder);
}

TEST(TextSources, TheProductOfPiecesAndPassesIsLimited) {
  const std::size_t passes = 1 + 58 * 256;
  EXPECT_EQ(problem_of([&] { require_passes(6734, passes); }), "");
  EXPECT_EQ(problem_of([&] { require_passes(6735, passes); }),
            "--twin-pieces: 6735 pieces of text x 14849 passes are too many; at most 6734 pieces");
  EXPECT_NE(problem_of([&] { require_passes(1 << 20, std::size_t{1} << 40); }), "");
}

}  // namespace
}  // namespace moescope
