#include "app/workspaces/text_workspace.h"

#include "app/workspaces/missing.h"
#include "widgets/text/coactivation_panel.h"
#include "widgets/text/routing_stability_panel.h"
#include "widgets/text/specialisation_panel.h"
#include "widgets/text/tokens_and_sample_panel.h"

namespace moescope {

TextWorkspace::TextWorkspace(Selection* selection, QWidget* parent) : Workspace(selection, "Text", parent) {
  tokens_panel_ = new TokensAndSamplePanel(selection_, TokensAndSamplePanel::Shows::probe_and_data);
  connect(tokens_panel_, &TokensAndSamplePanel::probeWanted, this, &TextWorkspace::probeWanted);
  tokens_ = addDock(tokens_panel_, "dock_text_tokens");
  sample_ = addDock(new TokensAndSamplePanel(selection_, TokensAndSamplePanel::Shows::sample), "dock_text_sample");
  specialisation_ = addDock(new SpecialisationPanel(selection_), "dock_text_specialisation");
  coactivation_ = addDock(new CoactivationPanel(selection_), "dock_text_coactivation");
  stability_ = addDock(new RoutingStabilityPanel(selection_), "dock_text_stability");
  setEssential({tokens_, coactivation_, specialisation_});
  arrange();
  foldWithout(tokens_, [](const History& run) {
    return textsMissing(run, TextKind::probe).isEmpty() ? QString() : textsMissing(run, TextKind::batch);
  });
  foldWithout(sample_, [](const History& run) { return textsMissing(run, TextKind::sample); });
  foldWithout(stability_, [](const History& run) { return textsMissing(run, TextKind::probe); });
  const auto counts_missing = [](const History& run) {
    return run.specialisation_frame_at(INT64_MAX) ? QString() : QString("counts of texts by expert");
  };
  for (QDockWidget* dock : {specialisation_, coactivation_}) foldWithout(dock, counts_missing);
}

// Arranges the default layout: the text above, the specialisation of the experts below.
void TextWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, tokens_);
  splitDockWidget(tokens_, specialisation_, Qt::Vertical);
  splitDockWidget(tokens_, sample_, Qt::Horizontal);
  splitDockWidget(specialisation_, coactivation_, Qt::Horizontal);
  tabifyDockWidget(sample_, stability_);
  for (QDockWidget* dock : docks()) dock->show();
  sample_->raise();
}

void TextWorkspace::setDefaultSizes() {
  const int across = width(), down = height();
  resizeDocks({tokens_, specialisation_}, {down * 56 / 100, down * 44 / 100}, Qt::Vertical);
  resizeDocks({tokens_, sample_}, {across * 62 / 100, across * 38 / 100}, Qt::Horizontal);
  resizeDocks({specialisation_, coactivation_}, QList<int>(2, across / 2), Qt::Horizontal);
}

void TextWorkspace::setLive(bool live) {
  tokens_panel_->setEditable(live);
}

}  // namespace moescope
