#include "app/workspaces/workspace.h"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QMenu>
#include <QStandardPaths>
#include <QTabBar>
#include <QTimer>
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
  QVariantMap state{{"layout", saveState(kDockLayoutVersion)}};
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
