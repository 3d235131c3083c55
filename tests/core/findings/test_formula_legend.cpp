#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "core/findings/explain/explain.h"
#include "core/frame/metrics.h"

namespace moescope {
namespace {

// True if the formula itself says what the letter means: "c the capacity factor", "p_e = n_e / sum n_e", "expert i".
bool explains(const std::string& formula, const std::string& letter) {
  const std::string kind = "(experts?|byte|domain|rank|run|checkpoint|MX|that are byte|chose) ";
  return std::regex_search(formula, std::regex("\\b" + letter + "(:| the | those | mean | = |\\([^)]*\\)(:| = ))")) ||
         std::regex_search(formula, std::regex("\\b" + kind + letter + "\\b"));
}

void expect_explained(const MetricInfo& info) {
  const std::string formula = info.formula, legend = "; " + formula_legend(info.formula);
  for (const std::string& letter : formula_letters(info.formula)) {
    if (letter == "a" && formula.find("a the coefficient") == std::string::npos) continue;  // the article
    const std::string name = letter == "s_" ? "s_(K)" : letter;
    EXPECT_TRUE(legend.find("; " + name + ": ") != std::string::npos || explains(formula + legend, letter))
        << info.key << ": " << letter << " in " << formula;
  }
}

TEST(FormulaLegend, EveryLetterHasAMeaning) {
  for (int m = 0; m < kNumMetrics; ++m) expect_explained(metric_info(static_cast<Metric>(m)));
  for (const MetricInfo& info : kQuantMetrics) expect_explained(info);
  for (const MetricInfo& info : kArrayMetrics) expect_explained(info);
  for (const auto& figure : kFlipFigures) expect_explained(figure.card);
  for (const auto& figure : kRouterRoundingFigures) expect_explained(figure.card);
}

TEST(FormulaLegend, NamesOnlyTheLettersOfTheFormula) {
  EXPECT_EQ(formula_legend("u_e = n_e E / (K T)"),
            "T: tokens of the batch; K: experts that a token chooses; E: routed experts of the layer; n_e: choices of "
            "expert e, one per token that chose it");
  EXPECT_EQ(formula_legend("sqrt(sum of squares of all gradients), before clipping"), "");
  EXPECT_EQ(formula_legend("d = ln p - ln q; p: the run, q: the reference"), "");
}

}  // namespace
}  // namespace moescope
