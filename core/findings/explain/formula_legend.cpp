#include <algorithm>
#include <cctype>

#include "core/findings/explain/explain.h"

namespace moescope {
namespace {

struct Letter {
  std::string_view letter, meaning;
};

constexpr Letter kLetters[] = {
    {"T", "tokens of the batch"},
    {"K", "experts that a token chooses"},
    {"E", "routed experts of the layer"},
    {"W", "steps of the window"},
    {"n_e", "choices of expert e, one per token that chose it"},
    {"n", "mean of n_e, the fair share T K / E"},
    {"u_e", "load of expert e in fair shares, n_e / n"},
    {"s_e", "score of expert e for a token"},
    {"s_te", "score of expert e for token t"},
    {"s_", "K-th highest score of a token, the last that is chosen"},
    {"logit_te", "output of the gate for token t and expert e"},
    {"b_e", "bias of expert e"},
    {"x", "a value before quantization"},
    {"q", "the same value after quantization"},
    {"q.k", "product of a query and a key"},
    {"d_head", "length of a query"},
    {"g", "the gradient of the run"},
    {"p", "a probability"},
    {"p_v", "p of token v of the vocabulary"},
    {"q_v", "q of token v of the vocabulary"},
    {"P", "a share, P(e | d) for domain d alone, P(b | e) for expert e alone"},
    {"S_A", "the experts in run A"},
    {"S_B", "the experts in the twin"},
    {"f_j", "the output of expert j"},
    {"f_i.f_j", "scalar product"},
    {"N_i", "tokens of expert i"},
    {"max_e", "the largest over all experts e"},
    {"sum_e", "the sum over all experts e"},
    {"std_e", "the standard deviation over all experts e"},
    {"sum_v", "the sum over all tokens v of the vocabulary"},
    {"mean_t", "the mean over the tokens t"},
    {"max_r", "the largest over all ranks r"},
    {"mean_r", "the mean over all ranks r"},
};

bool is_letter(std::string_view word) {
  constexpr std::string_view kFolds[] = {"max_", "sum_", "std_", "mean_"};
  const bool folds = std::ranges::any_of(kFolds, [word](std::string_view fold) { return word.starts_with(fold); });
  return word == "q.k" || word == "d_head" || word == "logit_te" || folds || word.size() == 1 ||
         (word.size() > 1 && word[1] == '_');
}

}  // namespace

std::vector<std::string> formula_letters(std::string_view formula) {
  const auto belongs = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '\'';
  };
  std::vector<std::string> letters;
  for (auto at = formula.begin(); at != formula.end();) {
    const auto first = std::find_if(at, formula.end(), belongs);
    at = std::find_if_not(first, formula.end(), belongs);
    std::string word(first, at);
    while (word.ends_with('.')) word.pop_back();
    const bool counts = !word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) && is_letter(word);
    if (counts && std::ranges::find(letters, word) == letters.end()) letters.push_back(word);
  }
  return letters;
}

std::string formula_legend(std::string_view formula) {
  const std::vector<std::string> letters = formula_letters(formula);
  const bool quantizes = std::ranges::find(letters, "x") != letters.end();
  std::string legend;
  for (const auto& [letter, meaning] : kLetters) {
    if (std::ranges::find(letters, letter) == letters.end() || (letter == "q" && !quantizes)) continue;
    const std::string name(letter);
    if (formula.starts_with(name + " = ") || formula.find(' ' + name + ": ") != std::string_view::npos) continue;
    legend +=
        (legend.empty() ? "" : "; ") + std::string(letter == "s_" ? "s_(K)" : letter) + ": " + std::string(meaning);
  }
  return legend;
}

}  // namespace moescope
