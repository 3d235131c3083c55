// tokenizer_config.json decides about the tokens around a text.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/checkpoints/checkpoint_tokenizer.h"
#include "tests/support/problem_of.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

class CheckpointTokenizerTest : public testing::Test {
 protected:
  CheckpointTokenizerTest() : folder_(fs::temp_directory_path() / "moescope_checkpoint_tokenizer") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CheckpointTokenizerTest() override { fs::remove_all(folder_); }

  // Writes a tokenizer with "a", "<s>" and "</s>"; `template_bos`: its template begins with "<s>".
  void put_tokenizer(bool template_bos) const {
    Json json{{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"<s>", 1}, {"</s>", 2}}}, {"merges", Json::array()}}},
              {"post_processor", {{"type", "ByteLevel"}}}};
    if (template_bos)
      json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {"<s>": {"ids": [1]}}})");
    std::ofstream(folder_ / "tokenizer.json") << json.dump();
  }
  void put_config(const Json& config) const { std::ofstream(folder_ / "tokenizer_config.json") << config.dump(); }
  Ids ids() const { return open_checkpoint_tokenizer(folder_.string()).tokenizer.encode("a"); }
  std::size_t notes() const { return open_checkpoint_tokenizer(folder_.string()).notes.size(); }
  fs::path folder_;
};

TEST_F(CheckpointTokenizerTest, TokensAreAddedIfTheConfigAsksForThem) {
  put_tokenizer(false);
  EXPECT_EQ(ids(), Ids{0});
  put_config({{"tokenizer_class", "LlamaTokenizerFast"},
              {"add_bos_token", true},
              {"add_eos_token", true},
              {"bos_token", {{"__type", "AddedToken"}, {"content", "<s>"}}},
              {"eos_token", "</s>"}});
  EXPECT_EQ(ids(), (Ids{1, 0, 2}));
  EXPECT_EQ(notes(), 2u);
  put_tokenizer(true);
  EXPECT_EQ(ids(), (Ids{1, 0, 2})) << "not twice";
  EXPECT_EQ(notes(), 1u);
}

TEST_F(CheckpointTokenizerTest, TokensAreLeftOutIfTheConfigSaysSo) {
  put_tokenizer(true);
  put_config({{"tokenizer_class", "LlamaTokenizerFast"}, {"add_bos_token", false}, {"bos_token", "<s>"}});
  EXPECT_EQ(ids(), Ids{0});
  EXPECT_EQ(notes(), 1u);
  put_config({{"tokenizer_class", "LlamaTokenizerFast"}, {"bos_token", "<s>"}});
  EXPECT_EQ(ids(), (Ids{1, 0})) << "without the key the template decides";
  EXPECT_EQ(notes(), 0u);
}

TEST_F(CheckpointTokenizerTest, AClassWithoutTheKeysFollowsTokenizerJsonWithANote) {
  put_tokenizer(false);
  put_config({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"add_bos_token", true}, {"bos_token", "<s>"}});
  EXPECT_EQ(ids(), Ids{0});
  EXPECT_EQ(notes(), 1u);
}

TEST_F(CheckpointTokenizerTest, AnUnknownTokenIsAnError) {
  put_tokenizer(false);
  put_config({{"tokenizer_class", "LlamaTokenizerFast"}, {"add_bos_token", true}, {"bos_token", "<x>"}});
  EXPECT_EQ(problem_of([&] { ids(); }),
            (folder_ / "tokenizer_config.json").string() + ": 'bos_token' '<x>' is no token of tokenizer.json");
  std::ofstream(folder_ / "special_tokens_map.json") << R"({"bos_token": "<s>"})";
  put_config({{"tokenizer_class", "LlamaTokenizerFast"}, {"add_bos_token", true}});
  EXPECT_EQ(ids(), (Ids{1, 0}));
}

}  // namespace
}  // namespace moescope
