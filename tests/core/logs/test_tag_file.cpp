// Mapping files in which the window keeps what the user states about names.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/files/input_file.h"
#include "core/logs/account.h"
#include "core/logs/tag_map.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

const std::string kLoad = tag_rule("blk{layer}.e{expert}.frac", "load_share");

TEST(TagFiles, RulesComeBeforeThoseOfTheFile) {
  const TestFolder folder("tag_file");
  const std::string log = folder / "run.jsonl", file = tag_file_beside(log);
  EXPECT_EQ(file, folder / kTagsBeside);
  std::ofstream(file)
      << "# mine\nprogram = \"x\"\nlayer_offset = 1\n\n[[tag]]\npattern = \"blk*\"\nmeans = \"ignored\"";
  keep_tag_rules(kLoad, file);
  keep_tag_rules(StatedName{"nll_bits", "ce_loss", 0.5}.rule(), file);
  const std::string text = read_file(file, 10000, "mapping file");
  EXPECT_TRUE(says(text, "# mine\nprogram = \"x\"\nlayer_offset = 1\n")) << text;
  const TagMap map = TagMap::parse(read_file(file, 10000, "mapping file"), file);
  EXPECT_EQ(map.layer_offset(), 1);
  ASSERT_TRUE(map.find("blk3.e41.frac"));
  EXPECT_EQ(map.find("blk3.e41.frac")->rule->means, TagMeaning::load_share);
  EXPECT_EQ(map.find("nll_bits")->rule->scale, 0.5);
}

TEST(TagFiles, AMissingFileAndItsFolderAreMade) {
  const TestFolder folder("tag_file");
  const std::string file = folder / "a/b/names.toml";
  keep_tag_rules(kLoad, file);
  EXPECT_TRUE(TagMap::parse(read_file(file, 10000, "mapping file"), file).find("blk0.e1.frac"));
}

TEST(TagFiles, AFileThatIsNoMappingIsNotReplaced) {
  const TestFolder folder("tag_file");
  const std::string file = folder / "names.toml";
  std::ofstream(file) << "[[tag]\npattern = 3";
  EXPECT_TRUE(says(problem_of([&] { keep_tag_rules(kLoad, file); }), file));
  EXPECT_EQ(read_file(file, 10000, "mapping file"), "[[tag]\npattern = 3");
  std::ofstream(file) << "layer_offset = 1";  // without a line end
  keep_tag_rules(kLoad, file);
  EXPECT_EQ(TagMap::parse(read_file(file, 10000, "mapping file"), file).layer_offset(), 1);
}

}  // namespace
}  // namespace moescope
