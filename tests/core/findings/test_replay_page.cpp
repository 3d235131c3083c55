// The page that plays a recording: its numbers, decoded here and by a browser, its size, and names that would break it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/findings/replay/replay_page.h"
#include "tests/support/browser.h"
#include "tests/support/synthetic_run.h"

namespace moescope {
namespace {

using PageJson = nlohmann::json;

constexpr int kPageExperts = 7;
constexpr std::array kPageLayers = {1, 2};
constexpr const char* kHostileName = "</script><script>document.title='broken'</script><!-- \"' \xff \x1b[2J";

std::uint32_t slots_of(std::int64_t step, int layer, int expert) {
  return expert == 3 ? 0 : static_cast<std::uint32_t>(1 + (step * 31 + layer * 17 + expert * 53) % 97);
}

constexpr int kPageRanks = 4;
constexpr std::int64_t kQuantEvery = 10;

std::uint32_t copies_of(std::int64_t step, int layer, int from, int to) {
  return static_cast<std::uint32_t>((step * 7 + layer * 5 + from * 11 + to * 3) % 200);
}
float sqnr_of(std::int64_t step, int layer) {
  return 20.12f + 0.37f * static_cast<float>(step) - static_cast<float>(layer);
}

QuantFrame quant_of(std::int64_t step, int layer, OperandRole operand) {
  QuantFrame quant;
  quant.layer = layer;
  quant.gemm = Gemm::expert_w1;
  quant.operand = operand;
  quant.format = quant_format(operand == OperandRole::x ? "mxfp8_e4m3_rceil" : "bf16");
  quant.sqnr_db = operand == OperandRole::x ? sqnr_of(step, layer) : std::numeric_limits<float>::infinity();
  quant.underflow = 0.0123f;
  if (operand == OperandRole::x) {
    quant.e8m0_blocks[120] = 100;
    quant.e8m0_blocks[122] = static_cast<std::uint32_t>(300 + step);
    quant.e8m0_blocks[255] = 1;
    quant.e8m0_blocks[0] = 2;
  }
  return quant;
}

struct MadeUpPage {
  std::int64_t steps = 50;
  int experts = kPageExperts;
  std::string name = "run";
  bool arrays = true;             // matrices and quantization statistics
  std::uint32_t copies_unit = 1;  // of the counts in matrices

  std::shared_ptr<History> history() const {
    RunInfo info;
    info.name = name;
    info.n_layers = 3;
    info.moe_layers = {kPageLayers.begin(), kPageLayers.end()};
    info.n_experts = experts;
    info.top_k = 2;
    info.dim = 64;
    info.config_toml = "seed = 1\n";
    auto history = std::make_shared<History>(info);
    for (std::int64_t step = 0; step < steps; ++step) history->append(frame(step));
    return history;
  }
  std::shared_ptr<TelemetryFrame> frame(std::int64_t step) const {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = 5.5f / static_cast<float>(1 + step);
    for (const int layer : kPageLayers) {
      RouterFrame router;
      router.layer = layer;
      router.max_vio = 0.01f * static_cast<float>(step + layer);
      for (int e = 0; e < experts; ++e) router.tokens_per_expert.push_back(slots_of(step, layer, e));
      if (arrays) router.volume = volume(step, layer);
      frame->routers.push_back(router);
      if (arrays && step % kQuantEvery == 0)
        for (const OperandRole operand : {OperandRole::x, OperandRole::w})
          frame->quants.push_back(quant_of(step, layer, operand));
    }
    return frame;
  }
  VolumeFrame volume(std::int64_t step, int layer) const {
    VolumeFrame volume;
    volume.ranks = kPageRanks;
    volume.ranks_per_node = 2;
    for (int cell = 0; cell < kPageRanks * kPageRanks; ++cell)
      volume.copies_RR.push_back(copies_unit * copies_of(step, layer, cell / kPageRanks, cell % kPageRanks));
    for (const std::uint32_t copies : volume.copies_RR) volume.distinct_RR.push_back(copies / 2);
    volume.nodes_RN.resize(2 * kPageRanks);
    return volume;
  }
};

std::string page_of(const MadeUpPage& run, const ReplayLimits& limits = {}) {
  const std::vector<ReplayRun> runs = {{run.history()}};
  return replay_page(runs, limits);
}

PageJson data_on_page(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return PageJson::parse(page.substr(from, page.find("</script>", from) - from));
}
PageJson run_on_page(const std::string& page, std::size_t run) {
  return data_on_page(page)["runs"][run];
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
  const PageJson run = run_on_page(page_of({}), 0);
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
        // Half a code, and 1/4096 octave by which the history rounds both values.
        EXPECT_NEAR(shown, u, static_cast<double>(largest[row]) * (1.0 / 510 + 4e-4));
      }
    }
  }
}

TEST(ReplayPage, MergesStepsToStayBelowItsSize) {
  const std::size_t point = 2 * (kPageExperts + 12) + 8;
  const PageJson run = run_on_page(page_of({.steps = 120, .arrays = false}, {.bytes = 30 * point}), 0);
  ASSERT_EQ(run["edges"].size(), 31u);
  EXPECT_EQ(run["edges"][1], 4);
  const std::vector<float> loss = decoded_floats(run["loss"]);
  EXPECT_NEAR(loss[0], 5.5 * (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4) / 4, 1e-5);
  EXPECT_LE(decoded_bytes(run["load"]).size(), 30u * 2 * kPageExperts);
}

TEST(ReplayPage, HoldsMatricesWithinTheirQuantization) {
  const PageJson matrices = run_on_page(page_of({}), 0)["matrices"];
  ASSERT_EQ(matrices["steps"].size(), 50u);
  EXPECT_EQ(matrices["ranks"], kPageRanks);
  EXPECT_EQ(matrices["per_node"], 2);
  for (const std::string exchange : {"copies", "distinct"}) {
    const std::vector<float> largest = decoded_floats(matrices[exchange + "_largest"]);
    const std::vector<std::uint8_t> shares = decoded_bytes(matrices[exchange]);
    ASSERT_EQ(largest.size(), 100u);
    ASSERT_EQ(shares.size(), 1600u);
    for (int step = 0; step < 50; ++step)
      for (std::size_t l = 0; l < 2; ++l) {
        const std::size_t row = 2 * static_cast<std::size_t>(step) + l;
        for (int cell = 0; cell < 16; ++cell) {
          const std::uint32_t copies = copies_of(step, kPageLayers[l], cell / 4, cell % 4);
          EXPECT_NEAR(static_cast<double>(largest[row]) * shares[16 * row + static_cast<std::size_t>(cell)] / 255,
                      exchange == "copies" ? copies : copies / 2, largest[row] / 509);
        }
      }
  }
}

TEST(ReplayPage, HoldsWhatTheQuantizerDid) {
  const PageJson data = data_on_page(page_of({})), operands = data["runs"][0]["operands"];
  EXPECT_EQ(operands["steps"], (PageJson{0, 10, 20, 30, 40}));
  EXPECT_EQ(data["gemms"], PageJson::array({"experts"}));
  EXPECT_EQ(operands["powers_of_two"], PageJson::array({"mxfp8_e4m3_rceil"}));
  ASSERT_EQ(operands["list"].size(), 4u);
  EXPECT_EQ(operands["list"][0], (PageJson{1, "experts", "w1", "x", "forward", 120, 3}));
  EXPECT_EQ(operands["list"][3], (PageJson{2, "experts", "w1", "W", "forward", 0, 0}));
  const std::vector<std::uint8_t> sqnr = decoded_bytes(operands["sqnr"]), blocks = decoded_bytes(operands["blocks"]);
  const std::vector<std::uint8_t> underflow = decoded_bytes(operands["underflow"]);
  const std::vector<std::uint8_t> lowest_blocks = decoded_bytes(operands["least_blocks"]);
  ASSERT_EQ(sqnr.size(), 2u * 5 * 4);
  ASSERT_EQ(blocks.size(), 5u * 6);
  for (std::size_t m = 0; m < 5; ++m) {
    const auto hundredths = [&](std::size_t o) {
      const std::size_t at = 2 * (4 * m + o);
      return static_cast<std::int16_t>(sqnr[at] | sqnr[at + 1] << 8);
    };
    EXPECT_NEAR(hundredths(0) / 100.0, sqnr_of(static_cast<std::int64_t>(10 * m), 1), 0.00501);
    EXPECT_EQ(hundredths(1), 32767);  // W in BF16, exact here
    EXPECT_EQ(blocks[6 * m], share_code(100.0 / (403.0 + 10.0 * static_cast<double>(m))));
    EXPECT_EQ(blocks[6 * m + 1], 0);
    EXPECT_EQ(underflow[4 * m], share_code(0.0123));
    EXPECT_EQ(lowest_blocks[4 * m], share_code(2.0 / (403.0 + 10.0 * static_cast<double>(m))));
  }
}

TEST(ReplayPage, ShareCodesAreOffByLittle) {
  EXPECT_EQ(share_code(0), 0);
  EXPECT_EQ(share_code(1), 254);
  EXPECT_EQ(share_code(1e-9), 1);
  EXPECT_EQ(share_code(kNoValue), 255);
  for (double share = 1e-5; share < 1; share *= 1.01)
    EXPECT_NEAR(std::pow(10, -5 * (254 - share_code(share)) / 253.0) / share, 1, 0.024);
}

TEST(ReplayPage, SharesOfLargeCountsAreThoseOfSmallOnes) {
  const PageJson small = run_on_page(page_of({}), 0)["matrices"];
  const PageJson large = run_on_page(page_of({.copies_unit = 1'000'000}), 0)["matrices"];
  EXPECT_EQ(large["copies"], small["copies"]);
}

TEST(ReplayPage, ThinsMatricesAndOperandsToTheirSize) {
  const ReplayLimits limits{.bytes = 14000};
  const std::string page = page_of({.steps = 400}, limits);
  const PageJson run = run_on_page(page, 0);
  EXPECT_LE(2 * decoded_bytes(run["matrices"]["copies"]).size(), 2000u);
  EXPECT_GE(run["matrices"]["steps"].size(), 20u);
  EXPECT_EQ(run["operands"]["steps"].size(), 40u);  // all of them fit
  const std::size_t fewer = run_on_page(page_of({.steps = 400}, {.bytes = 7000}), 0)["operands"]["steps"].size();
  EXPECT_GE(fewer, 15u);
  EXPECT_LE(fewer * (4 * 7 + 2 * 3), 1000u);
}

TEST(ReplayPage, NamesWhatARecordingLacks) {
  EXPECT_EQ(run_on_page(page_of({}), 0)["lacks"], PageJson::array());
  const PageJson run = run_on_page(page_of({.arrays = false}), 0);
  EXPECT_TRUE(run["matrices"].is_null() && run["operands"].is_null());
  EXPECT_EQ(run["lacks"],
            PageJson::array({"copies between ranks (all-to-all)", "quantization statistics (errors, block scales)"}));
}

TEST(ReplayPage, SaysHowTheSecondRunCompares) {
  const auto a = MadeUpPage{.steps = 80}.history();
  const std::vector<ReplayRun> runs = {{a}, {MadeUpPage{.steps = 80, .name = "b"}.history()}, {a, true, a}};
  const PageJson verdicts = data_on_page(replay_page(runs))["verdicts"];
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0]["sentence"], "b against run: the same losses to the bit over steps 0 to 79.");
  EXPECT_EQ(verdicts[1]["sentence"], "run is a noise twin of run: they differ by chance alone.");
}

TEST(ReplayPage, EndsWhenItIsCancelled) {
  const std::vector<ReplayRun> runs = {{MadeUpPage{}.history()}};
  double furthest = 0;
  const auto until_half = [&](double share) {
    EXPECT_GE(share, furthest);
    furthest = share;
    return share < 0.5;
  };
  EXPECT_TRUE(replay_page(runs, {}, until_half).empty());
  EXPECT_LT(furthest, 0.7);
}

TEST(ReplayPage, NamesCannotLeaveTheirTexts) {
  const std::string page = page_of({.steps = 3, .name = kHostileName}), usual = page_of({.steps = 3});
  const auto count = [](const std::string& text, char c) { return std::count(text.begin(), text.end(), c); };
  EXPECT_EQ(count(page, '<'), count(usual, '<'));
  const std::string name = run_on_page(page, 0)["name"];
  EXPECT_TRUE(name.starts_with("</script><script>")) << name;
  EXPECT_EQ(name.find('\x1b'), std::string::npos);
}

TEST(ReplayPage, NeedsNoNetworkAndSaysSo) {
  const std::string page = page_of({.steps = 3});
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("http:"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
}

TEST(ReplayPage, RefusesARunWithoutSteps) {
  EXPECT_THROW(page_of({.steps = 0, .name = "nothing"}), std::runtime_error);
}

// One browser for all tests of this suite: it takes seconds to start.
class ReplayInBrowser : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!Browser::is_there()) return;
    folder_ = std::filesystem::temp_directory_path() / ("replay_page_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    browser_ = std::make_unique<Browser>(folder_);
  }
  static void TearDownTestSuite() {
    browser_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    if (!browser_) GTEST_SKIP() << "needs chromium, which is not there";
    histories_ = {MadeUpPage{.steps = 40, .name = kHostileName}.history(),
                  MadeUpPage{.steps = 30, .name = "b"}.history()};
  }
  void TearDown() override {
    if (browser_) {
      EXPECT_EQ(browser_->problems(), std::vector<std::string>());
    }
  }
  void show(const std::string& page, int width, int height, bool dark = false) {
    std::ofstream(folder_ / "page.html") << page;
    browser_->open(folder_ / "page.html", width, height, dark, "!!document.documentElement?.dataset.firstPictureMs");
  }
  void show(int width, int height, bool dark = false) {
    const std::vector<ReplayRun> runs = {{histories_[0]}, {histories_[1]}};
    show(replay_page(runs), width, height, dark);
  }
  void press(const std::string& key) {
    static const std::map<std::string, int> kVirtualKeys{
        {" ", 32}, {"ArrowLeft", 37}, {"ArrowRight", 39}, {"Home", 36}, {"End", 35}};
    if (const auto known = kVirtualKeys.find(key); known != kVirtualKeys.end())
      return browser_->press(key, key == " " ? "Space" : key, known->second);
    const int letter = key[0] - 32;
    browser_->press(key, "Key" + std::string(1, static_cast<char>(letter)), letter);
  }
  Browser::Json value(const std::string& expression) { return browser_->evaluate(expression); }
  // Returns the page's tip at a place of the plot; x and y are shares of its inside.
  std::string said_at(const std::string& plot, double x, double y) {
    const auto [x_of_page, top] = place_of(plot, x, y);
    browser_->move_to(x_of_page, top);
    return value("tip.hidden ? '' : tip.textContent");
  }
  void click_on(const std::string& plot, double x, double y) {
    const auto [x_of_page, top] = place_of(plot, x, y);
    browser_->click(x_of_page, top);
  }

  static inline std::unique_ptr<Browser> browser_;
  std::vector<std::shared_ptr<History>> histories_;

 private:
  std::pair<double, double> place_of(const std::string& plot, double x, double y) {
    const Browser::Json at =
        value("(async () => { const plot = plots.find(each => each.canvas.parentElement.dataset.plot === '" + plot +
              "'); plot.canvas.scrollIntoView({block: 'center'}); await new Promise(requestAnimationFrame); const box "
              "= plot.canvas.getBoundingClientRect(), {w, h} = "
              "inside(plot); return [box.left + kLeft + " +
              std::to_string(x) + " * w, box.top + kTop + " + std::to_string(y) + " * h]; })()");
    return {at[0].get<double>(), at[1].get<double>()};
  }
  static inline std::filesystem::path folder_;
};

TEST_F(ReplayInBrowser, ReadsTheFiguresOfTheHistory) {
  show(1280, 800);
  const History& history = *histories_[0];
  EXPECT_EQ(value("lossAt(runs[0], 21)").get<float>(), history.value_at(Metric::ce_loss, kWholeRun, 21));
  EXPECT_EQ(value("maxVioAt(runs[0], 2, 21)").get<float>(), history.value_at(Metric::max_vio, 2, 21));
  const std::vector<float> u = history.utilisation(2, {21, 21}, 1);
  EXPECT_NEAR(value("loadAt(runs[0], 2, 21, 5)").get<float>(), u[5],
              *std::max_element(u.begin(), u.end()) / 510 + 1e-6f);
  EXPECT_EQ(value("loadAt(runs[1], 1, 29, 3)").get<float>(), 0);
  EXPECT_NEAR(value("copiesAt(runs[0], 'copies', 2, 21, 3, 1)").get<double>(), copies_of(21, 2, 3, 1), 200.0 / 509);
  EXPECT_NEAR(value("copiesAt(runs[0], 'distinct', 2, 21, 3, 1)").get<double>(), copies_of(21, 2, 3, 1) / 2,
              100.0 / 509);
  EXPECT_NEAR(value("operandAt(runs[0], operandOf(runs[0], 'experts', 2, 'w1 x forward'), 25).sqnr").get<double>(),
              sqnr_of(20, 2), 0.00501);
  EXPECT_NEAR(value("scaleShareAt(runs[0], operandOf(runs[0], 'experts', 2, 'w1 x forward'), 25, 122)").get<double>(),
              320.0 / 423, 0.024);
  EXPECT_TRUE(value("document.title.includes('<' + '/script>')").get<bool>());
  EXPECT_EQ(value("document.querySelectorAll('.verdict').length"), 1);
}

TEST_F(ReplayInBrowser, PlotsOfThreeRunsAreBelowTheirNames) {
  const std::vector<ReplayRun> runs = {{histories_[0]}, {histories_[1]}, {histories_[0]}};
  show(replay_page(runs), 1280, 800);
  EXPECT_EQ(value("[...document.querySelectorAll('.run')].map(head => head.offsetLeft)"),
            value("[...document.querySelectorAll('figure')].slice(0, 3).map(figure => figure.offsetLeft)"));
}

TEST_F(ReplayInBrowser, ObeysKeys) {
  show(1280, 800);
  EXPECT_EQ(value("state.step"), 39);
  press("ArrowLeft");
  press("ArrowLeft");
  EXPECT_EQ(value("state.step"), 37);
  press("ArrowRight");
  EXPECT_EQ(value("state.step"), 38);
  press("Home");
  EXPECT_EQ(value("state.step"), 0);
  press("n");
  EXPECT_EQ(value("[state.layer, document.getElementById('layer').value, state.operand.layer]"), (PageJson{2, "2", 2}));
  press("n");  // there is no further layer
  press("p");
  EXPECT_EQ(value("state.layer"), 1);
  press("d");
  EXPECT_EQ(value("[state.exchange, document.getElementById('exchange').value]"), (PageJson{"distinct", "distinct"}));
  press("l");
  EXPECT_TRUE(value("document.documentElement.classList.contains('dark')").get<bool>());
}

TEST_F(ReplayInBrowser, PlaysAndPauses) {
  show(1280, 800);
  value("document.getElementById('speed').value = '60'");
  press("Home");
  press(" ");
  EXPECT_EQ(value("document.getElementById('play').textContent"), "Pause");
  browser_->wait_for("state.step >= 5");
  // If the button has the focus, the key acts once, not twice.
  value("document.getElementById('play').focus()");
  press(" ");
  EXPECT_FALSE(value("state.playing").get<bool>());
  EXPECT_EQ(value("document.getElementById('play').textContent"), "Play");
  press(" ");
  browser_->wait_for("state.step === last && !state.playing");
}

TEST_F(ReplayInBrowser, SaysWhatIsUnderThePointerOfBothRuns) {
  show(1280, 800);
  const std::string loss = said_at("loss A", 21.5 / 40, 0.5);
  EXPECT_EQ(loss, "A: step 21\nloss 0.25 nats/token\n\nB: step 21\nloss 0.25 nats/token");
  EXPECT_EQ(value("[state.hover.over, stepOfShare(state.hover.x)]"), (PageJson{"steps", 21}));
  const std::string load = said_at("load over steps B", 10.5 / 40, 3.5 / kPageExperts);
  EXPECT_NE(load.find("B: step 10, layer 1, expert 3\nload 0 fair shares"), std::string::npos) << load;
  value("goTo(20)");
  const std::string copies = said_at("all-to-all A", 1.5 / kPageRanks, 2.5 / kPageRanks);
  const auto expected = static_cast<int>(copies_of(20, 1, 2, 1));
  EXPECT_NE(copies.find("rank 2 to rank 1\n" + std::to_string(expected) + " copies, "), std::string::npos) << copies;
  EXPECT_NE(copies.find(" kB in BF16"), std::string::npos) << copies;
  const std::string error = said_at("quantization error A", 0.25, 0.25);
  EXPECT_NE(error.find("step 20, layer 1, experts w1 x forward, mxfp8_e4m3_rceil\nSQNR 26.52 dB"), std::string::npos)
      << error;
  EXPECT_EQ(said_at("loss A", 0.5, -0.05), "");
}

TEST_F(ReplayInBrowser, ClicksChooseStepLayerAndOperand) {
  show(1280, 800);
  click_on("MaxVio of layers A", 12.5 / 40, 0.75);
  EXPECT_EQ(value("[state.step, state.layer]"), (PageJson{12, 2}));
  click_on("quantization error A", 0.25, 0.25);
  EXPECT_EQ(value("[state.operand.layer, state.operand.name]"), (PageJson{1, "w1 x forward"}));
  const std::string scales = said_at("scales at step A", 2.5 / 3, 0.5);
  EXPECT_NE(scales.find("scale 2^-5 (byte 122)\n7"), std::string::npos) << scales;  // 310 of 413 blocks
  EXPECT_NE(scales.find(" % of blocks"), std::string::npos) << scales;
}

TEST_F(ReplayInBrowser, FitsAPhoneAndFollowsItsTheme) {
  show(390, 844, true);
  EXPECT_TRUE(value("document.documentElement.scrollWidth <= 390").get<bool>());
  EXPECT_TRUE(value("document.documentElement.classList.contains('dark')").get<bool>());
  EXPECT_TRUE(value("plots.every(plot => plot.canvas.clientWidth > 300)").get<bool>());
  const std::string words = said_at("all-to-all B", 0.9, 0.9);
  EXPECT_NE(words.find("rank 3 to itself: not moved"), std::string::npos) << words;
  EXPECT_TRUE(value("tip.getBoundingClientRect().right <= 390 && tip.getBoundingClientRect().left >= 0").get<bool>());
}

TEST_F(ReplayInBrowser, CarriesItsSetup) {
  ReplayRun run{histories_[0]};
  run.setup = "moescope:setup?workspace=router&step=3&config=abc";
  show(replay_page(std::vector{run}), 1280, 800);
  press("Home");
  press("ArrowRight");
  browser_->wait_for(
      "document.querySelector('#setup input').value === "
      "'moescope:setup?workspace=router&layer=1&step=1&config=abc'");
  EXPECT_EQ(value("document.querySelector('#setup a').href"),
            "moescope:setup?workspace=router&layer=1&step=1&config=abc");
  show(1280, 800);  // without a set-up link
  EXPECT_TRUE(value("document.getElementById('setup').hidden").get<bool>());
}

TEST_F(ReplayInBrowser, SaysInOneLineWhatARecordingLacks) {
  const std::vector<ReplayRun> runs = {{MadeUpPage{.arrays = false}.history()}};
  show(replay_page(runs), 1280, 800);
  EXPECT_EQ(
      value("[...document.querySelectorAll('.run p')].map(p => p.textContent).filter(text => /^Not in/.test(text))"),
      PageJson::array({"Not in this recording: copies between ranks (all-to-all), quantization statistics (errors, "
                       "block scales)."}));
  EXPECT_EQ(value("plots.length"), 5);
}

// 58 MoE layers of 256 experts, and as much of them as a page can hold.
TEST_F(ReplayInBrowser, OpensALargeRunSoon) {
  SyntheticRun run({.layers = 59, .experts = 256, .top_k = 8, .ranks = 8, .tokens = 8192, .quant_every = 20});
  run.append(1000);
  const std::vector<ReplayRun> runs = {{run.history()}};
  const std::string page = replay_page(runs);
  EXPECT_LT(page.size(), 20'000'000u);
  show(page, 1280, 800);
  const double ms = std::stod(value("document.documentElement.dataset.firstPictureMs").get<std::string>());
  RecordProperty("bytes", std::to_string(page.size()));
  RecordProperty("first_picture_ms", std::to_string(ms));
  EXPECT_LT(ms, 15000);  // 1 s on an idle machine; the browser has no clock of processor time
}

}  // namespace
}  // namespace moescope
