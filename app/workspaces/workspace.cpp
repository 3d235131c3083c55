#include "app/workspaces/workspace.h"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QMenu>
#include <QStandardPaths>
#include <QTabBar>
#include <QTimer>
#include <QToolButton>
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "app/look/dock_title.h"
#include "app/look/shortcut_sheet.h"
#include "app/workspaces/picture.h"
#include "core/io/whole_file.h"
#include "widgets/overview/timeline_bar.h"

namespace moescope {

namespace {

constexpr int kDockLayoutVersion = 1;
constexpr QSize kLeastPanel{200, 140};

QString suggestedPath(const Panel& panel, const char* suffix) {
  QString stem = panel.title().toLower();
  stem.replace(' ', '-');
  return QStandardPaths::writableLocation(QStandardPaths::PicturesLocation) + "/" + stem + suffix;
}

}  // namespace

Workspace::Workspace(Selection* selection, const QString& name, QWidget* parent)
    : QMainWindow(parent), selection_(selection), name_(name) {
  setWindowFlags(Qt::Widget);
  setDockNestingEnabled(true);
  setObjectName(name.toLower() + "_workspace");
  auto* over = new QWidget(this);
  over_panels_ = new QVBoxLayout(over);
  over_panels_->setContentsMargins(0, 0, 0, 0);
  over_panels_->setSpacing(1);
  lacks_ = new QFrame(over);
  lacks_->setObjectName("lacks");
  lacks_words_ = new QLabel(lacks_);
  lacks_words_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  auto* show = new QToolButton(lacks_);
  show->setText("Show them");
  show->setAutoRaise(true);
  show->setToolTip("Show the panels that have nothing to show; View > Panels shows single ones");
  connect(show, &QToolButton::clicked, this, &Workspace::unfold);
  auto* line = new QHBoxLayout(lacks_);
  line->setContentsMargins(8, 0, 4, 0);
  line->addWidget(lacks_words_, 1);
  line->addWidget(show);
  lacks_->hide();
  over_panels_->addWidget(lacks_);
  setMenuWidget(over);
  connect(selection_, &Selection::dataChanged, this, &Workspace::foldEmpty);
}

void Workspace::addOverPanels(QWidget* widget) {
  over_panels_->insertWidget(0, widget);
}

void Workspace::foldWithout(QDockWidget* dock, Missing missing) {
  foldable_ << Foldable{dock, std::move(missing)};
}

void Workspace::foldEmpty() {
  const History* history = selection_->history();
  const std::int64_t steps = history ? history->steps().size() : 0;
  if (history == looked_ && steps < 2 * looked_steps_) return;
  unfold();
  looked_ = history, looked_steps_ = std::max<std::int64_t>(1, steps);
  fold();
}

void Workspace::foldAnew() {
  unfolded_.clear();
  looked_ = nullptr;
  foldEmpty();
}

// A run that is trained here may have everything at its next step; a log has on its first steps what it has.
void Workspace::fold() {
  if (!looked_ || !looked_->info().config_toml.empty() || looked_->steps().empty()) return;
  QStringList lacking;
  QList<QDockWidget*> empty;
  for (const Foldable& each : foldable_) {
    const QString missing = each.missing(*looked_);
    if (missing.isEmpty() || !each.dock->isVisibleTo(this)) continue;
    empty << each.dock;
    if (!lacking.contains(missing)) lacking << missing;
  }
  if (empty.isEmpty()) return;
  unfolded_ = saveState(kDockLayoutVersion);
  QStringList names;
  for (QDockWidget* dock : empty) {
    names << dock->windowTitle();
    dock->hide();
  }
  const QString words = QString("Not in this log: %1. Folded: %2.").arg(lacking.join(", "), names.join(", "));
  lacks_words_->setText(words);
  lacks_words_->setToolTip(words);
  lacks_->show();
  useRoomOfFolded();
}

void Workspace::unfold() {
  lacks_->hide();
  if (unfolded_.isEmpty()) return;
  restoreState(std::exchange(unfolded_, {}), kDockLayoutVersion);
}

// The first time; docks that were just shown get their sizes when the layout has taken them in.
void Workspace::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (!std::exchange(arranged_, true))
    QTimer::singleShot(0, this, [this] {
      setDefaultSizes();
      hideEmptyTabBars();
    });
}

bool Workspace::event(QEvent* event) {
  const bool done = QMainWindow::event(event);
  if (event->type() == QEvent::LayoutRequest || event->type() == QEvent::Resize) hideEmptyTabBars();
  return done;
}

// When docks are tabbed again, Qt leaves the former tab bar visible without tabs, as a line across the panels.
void Workspace::hideEmptyTabBars() {
  for (QTabBar* bar : findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly))
    if (bar->count() == 0) bar->hide();
}

QDockWidget* Workspace::addDock(QWidget* content, const QString& title, const char* object_name) {
  auto* dock = new QDockWidget(title, this);
  dock->setObjectName(object_name);
  dock->setWidget(content);
  docks_ << dock;
  return dock;
}

QDockWidget* Workspace::addDock(Panel* panel, const char* object_name) {
  panel->setTitleShown(false);
  panel->setMinimumSize(kLeastPanel);  // small enough that the set-up form fits beside four of them
  QDockWidget* dock = addDock(panel, panel->title(), object_name);
  dock->setTitleBarWidget(new DockTitle(dock, panelMenu(dock, panel)));
  connect(panel, &Panel::readoutChanged, this, &Workspace::readoutChanged);
  return dock;
}

QDockWidget* Workspace::addFindings(FindingsWatch* watch, const char* object_name) {
  auto* panel = new FindingsPanel(selection_, watch);
  QDockWidget* dock = addDock(panel, object_name);
  connect(panel, &FindingsPanel::countChanged, dock, [dock](int count) {
    dock->setWindowTitle(count ? QString("Findings (%1)").arg(count) : QString("Findings"));
  });
  return dock;
}

QDockWidget* Workspace::addTimeline(const char* object_name) {
  QDockWidget* dock = addDock(new TimelineBar(selection_), "Timeline", object_name);
  dock->setTitleBarWidget(new QWidget(dock));
  return dock;
}

QList<Panel*> Workspace::panels() const {
  QList<Panel*> panels;
  for (const QDockWidget* dock : docks_)
    if (auto* panel = qobject_cast<Panel*>(dock->widget())) panels << panel;
  return panels;
}

Panel* Workspace::panel(const QString& object_name) const {
  for (const QDockWidget* dock : docks_)
    if (dock->objectName() == object_name) return qobject_cast<Panel*>(dock->widget());
  return nullptr;
}

QVariantMap Workspace::remembered() const {
  QVariantMap state{{"layout", unfolded_.isEmpty() ? saveState(kDockLayoutVersion) : unfolded_}};
  for (const QDockWidget* dock : docks_)
    if (const auto* panel = qobject_cast<const Panel*>(dock->widget())) state[dock->objectName()] = panel->saveState();
  return state;
}

bool Workspace::restore(const QVariantMap& state) {
  for (const QDockWidget* dock : docks_) {
    auto* panel = qobject_cast<Panel*>(dock->widget());
    if (panel && state.contains(dock->objectName())) panel->restoreState(state[dock->objectName()].toMap());
  }
  const bool restored = restoreState(state["layout"].toByteArray(), kDockLayoutVersion);
  arranged_ |= restored;
  foldAnew();
  return restored;
}

QMenu* Workspace::panelMenu(QDockWidget* dock, Panel* panel) {
  auto* menu = new QMenu(dock);
  menu->addAction("Save &picture (PNG, SVG)...", this, [this, panel] { askAndSavePicture(panel); });
  menu->addAction("Save &table (CSV)...", this, [this, panel] { askAndSaveTable(panel); });
  menu->addAction("&Copy picture and table", this,
                  [this, panel] { QApplication::clipboard()->setMimeData(panelMimeData(panel, *selection_)); });
  menu->addAction("&What am I looking at?", this,
                  [this, panel] { showExplanation(this, panel->title(), panel->explain()); });
  menu->addSeparator();
  menu->addAction("&Float or dock", dock, [dock] { dock->setFloating(!dock->isFloating()); });
  menu->addAction("&Close", dock, &QDockWidget::close);
  return menu;
}

void Workspace::askAndSavePicture(Panel* panel) {
  const QString path =
      QFileDialog::getSaveFileName(this, "Save picture", suggestedPath(*panel, ".png"), "Pictures (*.png *.svg)");
  if (path.isEmpty()) return;
  try {
    savePanelFigure(panel, *selection_, path);
    emit saved(path);
  } catch (const std::exception& e) {
    emit failed(QString::fromUtf8(e.what()));
  }
}

void Workspace::askAndSaveTable(Panel* panel) {
  const QString path =
      QFileDialog::getSaveFileName(this, "Save table", suggestedPath(*panel, ".csv"), "Tables (*.csv)");
  if (path.isEmpty()) return;
  try {
    saveTable(*panel, path);
    emit saved(path);
  } catch (const std::exception& e) {
    emit failed(QString::fromUtf8(e.what()));
  }
}

void Workspace::savePicture(QWidget* widget, const QString& path) {
  write_whole_file(path.toStdString(), pngOf(widget->grab().toImage()).toStdString());
}

void Workspace::saveTable(const Panel& panel, const QString& path) {
  write_whole_file(path.toStdString(), panel.csv().toStdString());
}

}  // namespace moescope
