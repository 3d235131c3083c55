#include "app/workspaces/text_workspace.h"

#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <algorithm>

#include "app/workspaces/missing.h"
#include "core/files/assets.h"
#include "core/frame/frame.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
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
  setCentralWidget(makeNextSteps());
  centralWidget()->hide();
  arrange();
  foldWithout(tokens_, [](const History& run) {
    return textsMissing(run, TextKind::probe).isEmpty() ? QString() : textsMissing(run, TextKind::batch);
  });
  foldWithout(sample_, [](const History& run) { return textsMissing(run, TextKind::sample); });
  foldWithout(stability_, [](const History& run) { return textsMissing(run, TextKind::probe); });
  foldWithout(specialisation_, [](const History& run) {
    return run.specialisation_frame_at(INT64_MAX) ? QString() : QString("domains by expert");
  });
  foldWithout(coactivation_, [](const History& run) {
    const auto counts = run.specialisation_frame_at(INT64_MAX);
    const auto has_pairs = [](const SpecialisationFrame& layer) { return !layer.together_EE.empty(); };
    return counts && std::ranges::any_of(counts->specialisation, has_pairs) ? QString()
                                                                            : QString("experts chosen together");
  });
}

QWidget* TextWorkspace::makeNextSteps() {
  auto* page = new QWidget;
  auto* grid = new QGridLayout(page);
  grid->setVerticalSpacing(kSpace16);
  auto* text = new QLabel(QString::fromUtf8(asset("panels/text_next_steps.html")));
  auto* model = new QPushButton("Train or open a model");
  model->setProperty(kPrimaryProperty, true);
  auto* read = new QPushButton("What was read");
  connect(model, &QPushButton::clicked, this, &TextWorkspace::modelWanted);
  connect(read, &QPushButton::clicked, this, &Workspace::accountWanted);
  auto* row = plainRow(kSpace8);
  for (QPushButton* button : {model, read}) row->addWidget(button);
  row->addStretch(1);
  grid->addWidget(text, 1, 1);
  grid->addLayout(row, 2, 1);
  for (const int outer : {0, 2}) grid->setColumnStretch(outer, 1);
  grid->setRowStretch(0, 1);
  grid->setRowStretch(3, 2);
  return page;
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
