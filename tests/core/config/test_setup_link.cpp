// Set-up links: a link that was written is read back, and anything else is refused with one sentence.
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/config/setup_link.h"
#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

SharedSetup two_runs() {
  SharedSetup setup;
  setup.configs = {load_preset("small").config, load_preset("small").config};
  setup.configs[1].name = "bf16-twin";
  setup.configs[1].precision.experts = Recipe::bf16;
  setup.step = 120;
  setup.workspace = "all-to-all";
  setup.run = 1;
  setup.layer = 2;
  setup.expert = 5;
  return setup;
}

std::string why_refused(const std::string& text) {
  try {
    read_setup_link(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "was read";
}

TEST(SetupLink, RoundTripKeepsRunsAndView) {
  const SharedSetup written = two_runs(), read = read_setup_link(setup_link(written));
  ASSERT_EQ(read.configs.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(difference(read.configs[i], written.configs[i]).empty());
    EXPECT_EQ(read.configs[i].name, written.configs[i].name);
  }
  EXPECT_EQ(read.step, 120);
  EXPECT_EQ(read.workspace, "all-to-all");
  EXPECT_EQ(read.run, 1);
  EXPECT_EQ(read.layer, 2);
  EXPECT_EQ(read.expert, 5);
}

TEST(SetupLink, GivesBackEveryPreset) {
  for (const std::string& name : preset_names()) {
    SharedSetup setup;
    setup.configs = {load_preset(name).config};
    const std::string link = setup_link(setup);
    EXPECT_LT(link.size(), 1000u) << name << ": short enough to mail";
    const SharedSetup read = read_setup_link(link);
    EXPECT_TRUE(difference(read.configs.front(), setup.configs.front()).empty()) << name;
    EXPECT_EQ(read.step, -1);
    EXPECT_EQ(read.layer, -1);
  }
}

TEST(SetupLink, NeedsNoEscapesAndMayBeWrapped) {
  const std::string link = setup_link(two_runs());
  EXPECT_EQ(link.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_:?=&"),
            std::string::npos);
  std::string wrapped = "  ";
  for (std::size_t i = 0; i < link.size(); i += 60) wrapped += link.substr(i, 60) + "\r\n";
  EXPECT_TRUE(is_setup_link(wrapped));
  EXPECT_EQ(read_setup_link(wrapped).configs.size(), 2u);
}

TEST(SetupLink, RefusesInASentence) {
  const std::string link = setup_link(two_runs());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = link;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_EQ(why_refused("mailto:x"), "The set-up cannot be opened: it does not begin with moescope:.");
  EXPECT_EQ(why_refused("moescope:other"),
            "The set-up cannot be opened: it is of a kind that this version does not know.");
  EXPECT_EQ(why_refused("moescope:setup?step=3"), "The set-up cannot be opened: it has no settings (config=...).");
  EXPECT_EQ(why_refused(with("step=120", "step=1e9")),
            "The set-up cannot be opened: step is \"1e9\", expected 0 to 1000000000.");
  EXPECT_EQ(why_refused(with("layer=2", "layer=-2")),
            "The set-up cannot be opened: layer is \"-2\", expected 0 to 9999.");
  EXPECT_EQ(why_refused(with("all-to-all", "../etc")),
            "The set-up cannot be opened: workspace is \"../etc\", which is not a workspace.");
  EXPECT_EQ(why_refused(link.substr(0, link.size() - 20)),
            "The set-up cannot be opened: its settings are damaged or cut off; copy the whole text.");
  EXPECT_EQ(why_refused(with("config=", "config=!")),
            "The set-up cannot be opened: its settings are damaged; copy the whole text.");
  EXPECT_EQ(why_refused(std::string(1 << 20, 'x').insert(0, "moescope:setup?config=")),
            "The set-up cannot be opened: it is longer than 64 KiB.");
}

TEST(SetupLink, NamesTheSettingThatIsWrong) {
  // The link holds name = "x", router.top_k = 99.
  const std::string reason = why_refused("moescope:setup?config=eNrLS8xNVbBVUKpQ4irKLy1JLdIryS-IzwYKWVpyAQCKiAjK");
  EXPECT_NE(reason.find("router.top_k"), std::string::npos) << reason;
  EXPECT_EQ(std::count(reason.begin(), reason.end(), '\n'), 0);
}

TEST(SetupLink, IsEmptyForRunsThatCannotTrainSideBySide) {
  SharedSetup setup = two_runs();
  setup.configs[1].data.seq = 32;
  EXPECT_EQ(setup_link(setup), "");
}

TEST(SetupLink, SurvivesDamage) {
  const std::string link = setup_link(two_runs());
  std::mt19937 rng(7);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = link;
    for (int k = 0; k < 1 + i % 4; ++k) damaged[9 + rng() % (damaged.size() - 9)] = static_cast<char>(rng());
    const std::string reason = why_refused(damaged);
    EXPECT_TRUE(reason == "was read" || reason.starts_with("The set-up cannot be opened: ")) << reason;
    EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
  }
}

TEST(Base64, GivesBackBytes) {
  const std::string bytes("\x00\xff\x10moescope\xfe", 12);
  for (std::size_t n = 0; n <= bytes.size(); ++n)
    EXPECT_EQ(from_base64url(base64url(bytes.substr(0, n))), bytes.substr(0, n));
  EXPECT_EQ(base64url("foobar"), "Zm9vYmFy");
  EXPECT_EQ(from_base64url("Zm9vYg=="), "foob");
  EXPECT_EQ(from_base64url("A"), std::nullopt);
  EXPECT_EQ(from_base64url("Zm9+"), std::nullopt);
  const std::uint8_t ends[] = {0xfb, 0xff};
  EXPECT_EQ(base64(ends), "+/8=");
}

}  // namespace
}  // namespace moescope
