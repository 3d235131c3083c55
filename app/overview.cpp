#include "app/overview.h"

#include <QFileDialog>
#include <QMenu>
#include <QSaveFile>
#include <QStandardPaths>
#include <stdexcept>

#include "app/dock_title.h"
#include "app/shortcut_sheet.h"
#include "widgets/all_to_all_panel.h"
#include "widgets/balance_panel.h"
#include "widgets/expert_load_panel.h"
#include "widgets/load_over_time_panel.h"
#include "widgets/loss_panel.h"
#include "widgets/quant_error_panel.h"
#include "widgets/scale_histogram_panel.h"
#include "widgets/timeline_bar.h"

namespace moescope {

namespace {

constexpr QSize kLeastPanel{200, 140};

QString suggestedPath(const Panel& panel, const char* suffix) {
  QString stem = panel.title().toLower();
  stem.replace(' ', '-');
  return QStandardPaths::writableLocation(QStandardPaths::PicturesLocation) + "/" + stem + suffix;
}

}  // namespace

Overview::Overview(QMainWindow* window, Selection* selection)
    : QObject(window), window_(window), selection_(selection) {
  addLoss();
  addExpertLoad();
  addLoadOverTime();
  addBalance();
  addAllToAll();
  addScaleHistogram();
  addQuantError();
  addTimeline();
  arrange();
}

QDockWidget* Overview::addDock(Panel* panel, const char* object_name) {
  auto* dock = new QDockWidget(panel->title(), window_);
  dock->setObjectName(object_name);
  panel->setTitleShown(false);
  panel->setMinimumSize(kLeastPanel);  // small enough that the set-up form fits beside four of them
  dock->setWidget(panel);
  dock->setTitleBarWidget(new DockTitle(dock, panelMenu(dock, panel)));
  connect(panel, &Panel::readoutChanged, this, &Overview::readoutChanged);
  docks_ << dock;
  return dock;
}

void Overview::addLoss() {
  loss_ = addDock(new LossPanel(selection_), "dock_loss");
}
void Overview::addExpertLoad() {
  expert_load_ = addDock(new ExpertLoadPanel(selection_), "dock_expert_load");
}
void Overview::addLoadOverTime() {
  load_over_time_ = addDock(new LoadOverTimePanel(selection_), "dock_load_over_time");
}
void Overview::addBalance() {
  balance_ = addDock(new BalancePanel(selection_), "dock_balance");
}
void Overview::addAllToAll() {
  all_to_all_ = addDock(new AllToAllPanel(selection_), "dock_all_to_all");
}
void Overview::addScaleHistogram() {
  scale_histogram_ = addDock(new ScaleHistogramPanel(selection_), "dock_scale_histogram");
}
void Overview::addQuantError() {
  quant_error_ = addDock(new QuantErrorPanel(selection_), "dock_quant_error");
}

void Overview::addTimeline() {
  timeline_ = new QDockWidget("Timeline", window_);
  timeline_->setObjectName("dock_timeline");
  timeline_->setWidget(new TimelineBar(selection_));
  timeline_->setTitleBarWidget(new QWidget(timeline_));  // no title: the bar says what it is
  docks_ << timeline_;
}

// Two rows: what the router does over what it costs and what the number formats do. Split first; a dock that is part
// of a tab group would be pulled out of it.
void Overview::arrange() {
  for (QDockWidget* dock : docks_) dock->setFloating(false);
  window_->addDockWidget(Qt::TopDockWidgetArea, loss_);
  window_->addDockWidget(Qt::BottomDockWidgetArea, timeline_);
  window_->splitDockWidget(loss_, balance_, Qt::Vertical);
  window_->splitDockWidget(loss_, expert_load_, Qt::Horizontal);
  window_->splitDockWidget(expert_load_, load_over_time_, Qt::Horizontal);
  window_->splitDockWidget(balance_, all_to_all_, Qt::Horizontal);
  window_->splitDockWidget(all_to_all_, scale_histogram_, Qt::Horizontal);
  window_->splitDockWidget(scale_histogram_, quant_error_, Qt::Horizontal);
  for (QDockWidget* dock : docks_) dock->show();
}

void Overview::shareOut() {
  const int width = window_->width(), height = window_->height();
  window_->resizeDocks({loss_, balance_}, {height / 2, height / 2}, Qt::Vertical);
  window_->resizeDocks({loss_, expert_load_, load_over_time_}, QList<int>(3, width / 3), Qt::Horizontal);
  window_->resizeDocks({balance_, all_to_all_, scale_histogram_, quant_error_}, QList<int>(4, width / 4),
                       Qt::Horizontal);
}

QList<Panel*> Overview::panels() const {
  QList<Panel*> panels;
  for (const QDockWidget* dock : docks_)
    if (auto* panel = qobject_cast<Panel*>(dock->widget())) panels << panel;
  return panels;
}

Panel* Overview::panel(const QString& object_name) const {
  for (const QDockWidget* dock : docks_)
    if (dock->objectName() == object_name) return qobject_cast<Panel*>(dock->widget());
  return nullptr;
}

QVariantMap Overview::panelStates() const {
  QVariantMap states;
  for (const QDockWidget* dock : docks_)
    if (const auto* panel = qobject_cast<const Panel*>(dock->widget())) states[dock->objectName()] = panel->saveState();
  return states;
}

void Overview::restorePanelStates(const QVariantMap& states) {
  for (const QDockWidget* dock : docks_)
    if (auto* panel = qobject_cast<Panel*>(dock->widget())) panel->restoreState(states[dock->objectName()].toMap());
}

QMenu* Overview::panelMenu(QDockWidget* dock, Panel* panel) {
  auto* menu = new QMenu(dock);
  menu->addAction("Save &picture (PNG)...", this, [this, panel] { askAndSavePicture(panel); });
  menu->addAction("Save &table (CSV)...", this, [this, panel] { askAndSaveTable(panel); });
  menu->addAction("&What am I looking at?", this,
                  [this, panel] { showExplanation(window_, panel->title(), panel->explain()); });
  menu->addSeparator();
  menu->addAction("&Float or dock", dock, [dock] { dock->setFloating(!dock->isFloating()); });
  menu->addAction("&Close", dock, &QDockWidget::close);
  return menu;
}

void Overview::askAndSavePicture(Panel* panel) {
  const QString path =
      QFileDialog::getSaveFileName(window_, "Save picture", suggestedPath(*panel, ".png"), "Pictures (*.png)");
  if (path.isEmpty()) return;
  try {
    savePicture(panel, path);
    emit saved(path);
  } catch (const std::exception& e) {
    emit failed(QString::fromUtf8(e.what()));
  }
}

void Overview::askAndSaveTable(Panel* panel) {
  const QString path =
      QFileDialog::getSaveFileName(window_, "Save table", suggestedPath(*panel, ".csv"), "Tables (*.csv)");
  if (path.isEmpty()) return;
  try {
    saveTable(*panel, path);
    emit saved(path);
  } catch (const std::exception& e) {
    emit failed(QString::fromUtf8(e.what()));
  }
}

void Overview::savePicture(QWidget* widget, const QString& path) {
  QSaveFile file(path);
  if (!file.open(QIODevice::WriteOnly) || !widget->grab().save(&file, "PNG") || !file.commit())
    throw std::runtime_error((path + ": cannot save the picture: " + file.errorString()).toStdString());
}

void Overview::saveTable(const Panel& panel, const QString& path) {
  QSaveFile file(path);
  if (!file.open(QIODevice::WriteOnly) || file.write(panel.csv().toUtf8()) < 0 || !file.commit())
    throw std::runtime_error((path + ": cannot save the table: " + file.errorString()).toStdString());
}

}  // namespace moescope
