#include "widgets/all_to_all/ranks_a_token_goes_to_panel.h"

namespace moescope {

RanksATokenGoesToPanel::RanksATokenGoesToPanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, "Ranks a token goes to",
                   {{Metric::rank_overload}, {Metric::ranks_per_token}, {Metric::nodes_per_token}}, parent) {
  showAnswers();
}

Panel::Answer RanksATokenGoesToPanel::answer() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return {};
  const auto value = [&](Metric metric) {
    return history->value_at(metric, target(metric_info(metric)).layer, selection_->step());
  };
  const float ranks = value(Metric::ranks_per_token), nodes = value(Metric::nodes_per_token);
  if (is_missing(ranks)) return {};
  const RunInfo& info = history->info();
  const QString shortest = QString("To %1 ranks").arg(formatValue(ranks, 3));
  const QString of =
      info.ranks > 0 ? QString("To %1 of %2 ranks").arg(formatValue(ranks, 3)).arg(info.ranks) : shortest;
  const QString on_nodes = is_missing(nodes) ? QString() : QString(" on %1 nodes").arg(formatValue(nodes, 3));
  return {"How many ranks does a token go to?", {of + on_nodes, of, shortest}};
}

}  // namespace moescope
