// The page that plays a recording: its numbers, decoded here and by a browser, its size, and names that would break it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/files/replay_page.h"

namespace moescope {
namespace {

using PageJson = nlohmann::json;

constexpr int kPageExperts = 7;
constexpr std::array kPageLayers = {1, 2};
constexpr const char* kHostileName = "</script><script>document.title='broken'</script><!-- \"' \xff \x1b[2J";

std::uint32_t slots_of(std::int64_t step, int layer, int expert) {
  return expert == 3 ? 0 : static_cast<std::uint32_t>(1 + (step * 31 + layer * 17 + expert * 53) % 97);
}

std::shared_ptr<History> history_of(std::int64_t steps, int experts, const std::string& name) {
  RunInfo info;
  info.name = name;
  info.n_layers = 3;
  info.moe_layers = {kPageLayers.begin(), kPageLayers.end()};
  info.n_experts = experts;
  info.top_k = 2;
  auto history = std::make_shared<History>(info);
  for (std::int64_t step = 0; step < steps; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = 5.5f / static_cast<float>(1 + step);
    for (const int layer : kPageLayers) {
      RouterFrame router;
      router.layer = layer;
      router.max_vio = 0.01f * static_cast<float>(step + layer);
      for (int e = 0; e < experts; ++e) router.tokens_per_expert.push_back(slots_of(step, layer, e));
      frame->routers.push_back(router);
    }
    history->append(std::move(frame));
  }
  return history;
}

PageJson run_on_page(const std::string& page, std::size_t run) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return PageJson::parse(page.substr(from, page.find("</script>", from) - from))["runs"][run];
}

std::vector<std::uint8_t> decoded_bytes(const std::string& base64) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  std::uint32_t bits = 0;
  int n = 0;
  for (const char c : base64) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(c));
    if ((n += 6) >= 8) bytes.push_back(static_cast<std::uint8_t>(bits >> (n -= 8)));
  }
  return bytes;
}

std::vector<float> decoded_floats(const std::string& base64) {
  const std::vector<std::uint8_t> bytes = decoded_bytes(base64);
  std::vector<float> values;
  for (std::size_t i = 0; i + 3 < bytes.size(); i += 4)
    values.push_back(std::bit_cast<float>(bytes[i] | std::uint32_t{bytes[i + 1]} << 8 |
                                          std::uint32_t{bytes[i + 2]} << 16 | std::uint32_t{bytes[i + 3]} << 24));
  return values;
}

TEST(ReplayPage, HoldsEveryStepWithinItsQuantization) {
  const std::vector histories = {history_of(50, kPageExperts, "run")};
  const PageJson run = run_on_page(replay_page(histories), 0);
  const std::vector<float> loss = decoded_floats(run["loss"]), max_vio = decoded_floats(run["max_vio"]);
  const std::vector<float> largest = decoded_floats(run["load_max"]);
  const std::vector<std::uint8_t> load = decoded_bytes(run["load"]);
  ASSERT_EQ(run["edges"].size(), 51u);
  ASSERT_EQ(loss.size(), 50u);
  ASSERT_EQ(max_vio.size(), 100u);
  ASSERT_EQ(largest.size(), 100u);
  ASSERT_EQ(load.size(), 700u);
  for (std::size_t step = 0; step < 50; ++step) {
    EXPECT_EQ(loss[step], 5.5f / static_cast<float>(1 + step));
    for (std::size_t l = 0; l < 2; ++l) {
      const std::size_t row = l * 50 + step;
      EXPECT_EQ(max_vio[row], 0.01f * static_cast<float>(static_cast<int>(step) + kPageLayers[l]));
      double slots = 0;
      for (int e = 0; e < kPageExperts; ++e) slots += slots_of(static_cast<std::int64_t>(step), kPageLayers[l], e);
      for (int e = 0; e < kPageExperts; ++e) {
        const double u = slots_of(static_cast<std::int64_t>(step), kPageLayers[l], e) * kPageExperts / slots;
        const double shown =
            static_cast<double>(largest[row]) * load[row * kPageExperts + static_cast<std::size_t>(e)] / 255;
        // Half a code, and 1/4096 octave of the history's own rounding of both.
        EXPECT_NEAR(shown, u, static_cast<double>(largest[row]) * (1.0 / 510 + 4e-4));
      }
    }
  }
}

TEST(ReplayPage, MergesStepsToStayBelowItsSize) {
  const std::vector histories = {history_of(120, kPageExperts, "run")};
  const PageJson run = run_on_page(replay_page(histories, 30 * 2 * kPageExperts), 0);
  ASSERT_EQ(run["edges"].size(), 31u);
  EXPECT_EQ(run["edges"][1], 4);
  const std::vector<float> loss = decoded_floats(run["loss"]);
  EXPECT_NEAR(loss[0], 5.5 * (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4) / 4, 1e-5);
  EXPECT_LE(decoded_bytes(run["load"]).size(), 30u * 2 * kPageExperts);
}

TEST(ReplayPage, NamesCannotLeaveTheirTexts) {
  const std::vector plain = {history_of(3, kPageExperts, "run")};
  const std::vector hostile = {history_of(3, kPageExperts, kHostileName)};
  const std::string page = replay_page(hostile), usual = replay_page(plain);
  const auto count = [](const std::string& text, char c) { return std::count(text.begin(), text.end(), c); };
  EXPECT_EQ(count(page, '<'), count(usual, '<'));
  const std::string name = run_on_page(page, 0)["name"];
  EXPECT_TRUE(name.starts_with("</script><script>")) << name;
  EXPECT_EQ(name.find('\x1b'), std::string::npos);
}

TEST(ReplayPage, NeedsNoNetworkAndSaysSo) {
  const std::vector histories = {history_of(3, kPageExperts, "run")};
  const std::string page = replay_page(histories);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("http:"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
}

TEST(ReplayPage, RefusesARunWithoutSteps) {
  const std::vector histories = {history_of(0, kPageExperts, "nothing")};
  EXPECT_THROW(replay_page(histories), std::runtime_error);
}

std::string dom_in_chromium(const std::filesystem::path& page) {
  const std::string command = "timeout 60 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir='" +
                              page.string() + ".profile' --dump-dom 'file://" + page.string() + "' 2>/dev/null";
  std::string dom;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return dom;
  std::array<char, 4096> part;
  while (const std::size_t n = fread(part.data(), 1, part.size(), pipe)) dom.append(part.data(), n);
  pclose(pipe);
  return dom;
}

TEST(ReplayPage, ABrowserReadsTheFiguresOfTheHistory) {
  if (std::system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs chromium, which is not there";
  const std::vector histories = {history_of(40, kPageExperts, kHostileName), history_of(30, kPageExperts, "b")};
  const auto folder = std::filesystem::temp_directory_path() / ("replay_page_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "page.html")
      << replay_page(histories)
      << "<pre id=\"answer\"></pre><script>document.getElementById('answer').textContent = 'ANSWER' + JSON.stringify("
         "[lossAt(runs[0], 21), maxVioAt(runs[0], 2, 21), loadAt(runs[0], 2, 21, 5), loadAt(runs[1], 1, 29, 3), "
         "document.title.includes('<' + '/script>'), document.documentElement.scrollWidth <= innerWidth]) + "
         "'END';</script>";
  const std::string dom = dom_in_chromium(folder / "page.html");
  std::filesystem::remove_all(folder);
  const std::size_t from = dom.rfind(">ANSWER");
  ASSERT_NE(from, std::string::npos) << dom.substr(0, 400);
  const PageJson answer = PageJson::parse(dom.substr(from + 7, dom.find("END", from) - from - 7));
  const History& history = *histories[0];
  EXPECT_EQ(answer[0].get<float>(), history.value_at(Metric::ce_loss, kWholeRun, 21));
  EXPECT_EQ(answer[1].get<float>(), history.value_at(Metric::max_vio, 2, 21));
  const std::vector<float> u = history.utilisation(2, {21, 21}, 1);
  EXPECT_NEAR(answer[2].get<float>(), u[5], *std::max_element(u.begin(), u.end()) / 510 + 1e-6f);
  EXPECT_EQ(answer[3].get<float>(), 0);
  EXPECT_TRUE(answer[4].get<bool>());
  EXPECT_TRUE(answer[5].get<bool>());
}

}  // namespace
}  // namespace moescope
