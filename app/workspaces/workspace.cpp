#include "app/workspaces/workspace.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QScopedValueRollback>
#include <QScrollArea>
#include <QStandardPaths>
#include <QTabBar>
#include <QToolBar>
#include <algorithm>
#include <cmath>
#include <utility>

#include "app/look/messages.h"
#include "app/workspaces/panel_dock.h"
#include "app/workspaces/picture.h"
#include "core/files/whole_file.h"
#include "core/frame/frame.h"
#include "core/numerics/index.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/overview/health_banner.h"

namespace moescope {

namespace {

bool isDocked(const QDockWidget& dock, const QMainWindow& window) {
  return !dock.isFloating() && dock.isVisibleTo(&window);
}

// Returns the height of a dock and of the tab bar below it, which share the dock's place.
int heightWithTabs(const QDockWidget& dock, const QMainWindow& window) {
  const QRect place = dock.geometry();
  int height = place.height();
  if (window.tabifiedDockWidgets(const_cast<QDockWidget*>(&dock)).isEmpty()) return height;
  for (const QTabBar* bar : window.findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly))
    if (bar->isVisibleTo(&window) && bar->geometry().left() < place.right() && bar->geometry().right() > place.left() &&
        std::abs(bar->geometry().top() - place.bottom()) <= 2)
      height += bar->height();
  return height;
}

}  // namespace

void DockShares::learn(const QMainWindow& window, const QList<QDockWidget*>& docks) {
  const double across = std::max(1, window.width()), down = std::max(1, window.height());
  for (QDockWidget* dock : docks) {
    if (!isDocked(*dock, window) || dock->visibleRegion().isEmpty()) continue;
    const QSizeF share{dock->width() / across, heightWithTabs(*dock, window) / down};
    shares_[dock->objectName()] = share;
    for (const QDockWidget* behind : window.tabifiedDockWidgets(dock)) shares_[behind->objectName()] = share;
  }
}

void DockShares::apply(QMainWindow* window, const QList<QDockWidget*>& docks) const {
  QList<QDockWidget*> sized;
  QList<int> widths, heights;
  const int down = std::max(1, window->height());
  for (QDockWidget* dock : docks) {
    const QSizeF share = shares_.value(dock->objectName()).toSizeF();
    if (share.isEmpty() || !isDocked(*dock, *window)) continue;
    sized << dock;
    widths << std::max(1, to_int(std::lround(share.width() * window->width())));
    heights << std::max(1, to_int(std::lround(share.height() * down)));
  }
  if (sized.isEmpty()) return;
  window->resizeDocks(sized, widths, Qt::Horizontal);
  window->resizeDocks(sized, heights, Qt::Vertical);
}

void DockShares::restore(const QVariantMap& shares) {
  shares_.clear();
  for (auto share = shares.begin(); share != shares.end(); ++share) {
    const QSizeF size = share.value().toSizeF();
    if (size.width() > 0 && size.width() <= 1 && size.height() > 0 && size.height() <= 1) shares_[share.key()] = size;
  }
}

namespace {

constexpr int kDockLayoutVersion = 1;
// With this size two rows of panels fit on a screen of 1080 lines at scale 2 with all bars, and four panels fit in a
// row beside the set-up form.
constexpr QSize kMinPanel{200, 110};
constexpr int kMinPlotHeight = 40;  // least height of a plot, which is below its size hint
constexpr int kSettleMs = 400;      // longer than the animation of a dock
constexpr int kExactMs = 2000;

// A line with a dashed border in place of panels for which a log or run has no data.
class FoldLine : public QFrame {
 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(QColor(colors(palette()).axis), 1, Qt::DashLine));
    painter.drawRoundedRect(QRectF(contentsRect()).adjusted(0.5, 0.5, -0.5, -0.5), kRadiusPanel, kRadiusPanel);
  }
};

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
  setContentsMargins(kSpace8, kSpace8, kSpace8, 0);
  auto* top_column = new QWidget(this);
  over_panels_ = plainColumn(top_column, kSpace8);
  verdict_ = new QWidget(top_column);
  plainColumn(verdict_, kSpace8);
  over_panels_->addWidget(verdict_);
  setMenuWidget(top_column);
  addFoldLine();
  connect(selection_, &Selection::dataChanged, this, &Workspace::foldEmpty);
  settle_.setSingleShot(true);
  settle_.setInterval(kSettleMs);
  connect(&settle_, &QTimer::timeout, this, &Workspace::learnShares);
}

// Adds the line in a tool bar at the lower edge: besides docks, a QMainWindow has room only there.
void Workspace::addFoldLine() {
  auto* fold_line = new FoldLine;
  fold_line->setObjectName("lacks");
  fold_line->setContentsMargins(0, kSpace8, 0, 0);
  missing_line_ = new FittedLabel;
  missing_line_->setRole(QPalette::PlaceholderText);
  read_ = new LinkLabel("<a href=\"#\">What was read</a>");
  read_->setAccessibleName("What was read from the log");
  fold_link_ = new LinkLabel;
  fold_link_->setToolTip("Show or hide the panels without data; View > Panels shows single ones");
  auto* line = new QHBoxLayout(fold_line);
  line->setContentsMargins(kSpace12, 0, kSpace12, 0);
  line->addWidget(missing_line_, 1);
  line->addWidget(read_);
  line->addWidget(fold_link_);
  connect(read_, &QLabel::linkActivated, this, &Workspace::accountWanted);
  connect(fold_link_, &QLabel::linkActivated, this, &Workspace::toggleFolded);
  followFont(fold_line, [=] { fold_line->setFixedHeight(kSpace8 + withType(kFieldHeight, fold_line->fontMetrics())); });
  fold_bar_ = new QToolBar("Hidden panels", this);
  fold_bar_->setObjectName("fold_bar");
  fold_bar_->setMovable(false);
  fold_bar_->setContextMenuPolicy(Qt::PreventContextMenu);
  fold_bar_->layout()->setContentsMargins(0, 0, 0, 0);
  fold_bar_->addWidget(fold_line);
  addToolBar(Qt::BottomToolBarArea, fold_bar_);
  fold_bar_->hide();
}

void Workspace::arrangeAnew() {
  const QScopedValueRollback<bool> ours(arranging_, true);
  fold_bar_->hide();
  folded_.clear();
  stacked_.clear();
  room_used_ = projected_ = false;
  shares_.forget();
  exact_.reset();
  for (QDockWidget* dock : docks_) dock->setFloating(false);
  arrange();
}

void Workspace::stack(const QList<QDockWidget*>& docks, int first_share) {
  arrangeAnew();
  const QScopedValueRollback<bool> ours(arranging_, true);
  for (QDockWidget* dock : docks_) dock->hide();
  for (QDockWidget* dock : docks) removeDockWidget(dock);
  for (qsizetype i = 0; i < docks.size(); ++i) {
    if (i == 0) addDockWidget(Qt::TopDockWidgetArea, docks[0]);
    if (i > 0) splitDockWidget(docks[i - 1], docks[i], Qt::Vertical);
    docks[i]->show();
  }
  stacked_ = docks;
  first_share_ = first_share;
}

void Workspace::applySizes() {
  if (settle_.isActive()) return;  // the user's shares are not known yet
  if (!stacked_.isEmpty()) {
    QList<int> heights(stacked_.size(), height());
    heights[0] *= first_share_;
    return resizeDocks(stacked_, heights, Qt::Vertical);
  }
  // Restores the exact sizes in pixels until the window has its size again; after that the shares count.
  if (exact_ && isVisible()) QTimer::singleShot(kExactMs, this, [this] { exact_.reset(); });
  if (exact_ && exact_->size == size() && exact_->shown == shownDocks()) {
    const QScopedValueRollback<bool> ours(arranging_, true);
    restoreState(exact_->layout, kDockLayoutVersion);
    return;
  }
  projected_ ? shareRoomOfEssential() : setDefaultSizes();
  shares_.apply(this, docks_);
}

void Workspace::shareRoom(const QList<QDockWidget*>& docks, Qt::Orientation along) {
  QList<QDockWidget*> shown;
  for (QDockWidget* dock : docks)
    if (dock->isVisibleTo(this) && !dock->isFloating()) shown << dock;
  const int room = along == Qt::Horizontal ? width() : height();
  if (!shown.isEmpty()) resizeDocks(shown, QList<int>(shown.size(), std::max(1, room / to_int(shown.size()))), along);
}

void Workspace::project() {
  const QScopedValueRollback<bool> ours(arranging_, true);
  settle_.stop();
  unfold();
  stacked_.clear();
  shares_.forget();
  exact_.reset();
  projected_ = true;
  arrangeEssential();
  foldAnew();
}

QList<QDockWidget*> Workspace::dockedEssential() const {
  QList<QDockWidget*> docked;
  for (QDockWidget* dock : essential_)
    if (!dock->isFloating()) docked << dock;
  return docked;
}

// Places the first dock at the left and two others at its right, of which the last one is higher; four docks make two
// rows. Floating docks, which may be on another screen, stay.
void Workspace::arrangeEssential() {
  for (QDockWidget* dock : docks_)
    if (!dock->isFloating()) dock->hide();
  const QList<QDockWidget*> docked = dockedEssential();
  if (docked.isEmpty()) return;
  for (QDockWidget* dock : docked) removeDockWidget(dock);
  addDockWidget(Qt::TopDockWidgetArea, docked[0]);
  if (docked.size() > 3) splitDockWidget(docked[0], docked[2], Qt::Vertical);
  if (docked.size() > 1) splitDockWidget(docked[0], docked[1], Qt::Horizontal);
  if (docked.size() > 3) splitDockWidget(docked[2], docked[3], Qt::Horizontal);
  if (docked.size() == 3) splitDockWidget(docked[1], docked[2], Qt::Vertical);
  for (QDockWidget* dock : docked) dock->show();
}

void Workspace::shareRoomOfEssential() {
  const QList<QDockWidget*> docked = dockedEssential();
  if (docked.size() < 2) return;
  shareRoom({docked[0], docked[1]});
  if (docked.size() > 3) shareRoom({docked[2], docked[3]});
  const auto shownOf = [this](QDockWidget* first, QDockWidget* second) {
    return first->isVisibleTo(this) ? first : second;
  };
  if (docked.size() > 3) shareRoom({shownOf(docked[0], docked[1]), shownOf(docked[2], docked[3])}, Qt::Vertical);
  const bool one_above_other = docked.size() == 3 && docked[1]->isVisibleTo(this) && docked[2]->isVisibleTo(this);
  if (one_above_other) resizeDocks({docked[1], docked[2]}, {height() * 2 / 5, height() * 3 / 5}, Qt::Vertical);
}

void Workspace::learnShares() {
  exact_.reset();
  if (isVisible()) shares_.learn(*this, docks_);
}

QList<QSize> Workspace::sizesOfDocks() const {
  QList<QSize> sizes;
  for (const QDockWidget* dock : docks_) sizes << dock->size();
  return sizes;
}

QList<QDockWidget*> Workspace::shownDocks() const {
  QList<QDockWidget*> shown;
  for (QDockWidget* dock : docks_)
    if (!dock->isHidden()) shown << dock;
  return shown;
}

void Workspace::addOverPanels(QWidget* widget) {
  static_cast<QBoxLayout*>(verdict_->layout())->insertWidget(0, widget);
  over_panels_->setContentsMargins(0, 0, 0, kSpace8);
}

void Workspace::foldWithout(QDockWidget* dock, Missing missing, bool folds_own_runs) {
  foldable_ << Foldable{dock, std::move(missing), folds_own_runs};
}

void Workspace::foldEmpty() {
  const History* history = selection_->history();
  const std::int64_t steps = history ? history->count() : 0;
  const std::size_t runs = selection_->histories().size();
  if (history == folded_for_ && runs == looked_runs_ && steps < 2 * looked_steps_) return;
  unfold();
  folded_for_ = history;
  looked_runs_ = runs;
  looked_steps_ = std::max<std::int64_t>(1, steps);
  fold();
}

void Workspace::foldAnew() {
  looked_steps_ = 0;
  foldEmpty();
}

// Returns the shown docks without data. If no other dock would be left, the central page takes their room; without such
// a page the first dock stays, whose panel shows why it is empty.
QList<QDockWidget*> Workspace::emptyDocks(QStringList* missing_data) {
  QList<QDockWidget*> empty;
  const bool is_own = !folded_for_ || !folded_for_->info().config_toml.empty();
  for (const Foldable& foldable : foldable_) {
    const bool is_looked_at = foldable.dock->isVisibleTo(this) && (!is_own || foldable.folds_own_runs);
    QString missing;
    if (is_looked_at) missing = folded_for_ ? foldable.missing(*folded_for_) : QString("a run");
    if (missing.isEmpty()) continue;
    empty << foldable.dock;
    if (!missing_data->contains(missing)) *missing_data << missing;
  }
  const bool some_left = std::ranges::any_of(
      docks_, [&](const QDockWidget* dock) { return dock->isVisibleTo(this) && !empty.contains(dock); });
  all_empty_ = !some_left && !empty.isEmpty();
  if (all_empty_ && !centralWidget()) empty.removeFirst();
  return empty;
}

void Workspace::fold() {
  all_empty_ = false;
  if (folded_for_ ? folded_for_->steps().empty() : !foldsWithoutRun()) return;
  QStringList missing_data, names;
  const QScopedValueRollback<bool> ours(arranging_, true);
  folded_ = emptyDocks(&missing_data);
  if (folded_.isEmpty()) return;
  for (QDockWidget* dock : folded_) {
    names << dock->windowTitle();
    dock->hide();
  }
  const bool is_log = folded_for_ && run_origin(folded_for_->info()) == RunOrigin::log;
  read_->setVisible(is_log);
  if (all_empty_ && centralWidget()) centralWidget()->show();
  const QString hidden = countedText(names.size(), "panel") + " hidden";
  QString reason = "No run is open";
  if (folded_for_) reason = QString("Not in this %1: %2").arg(QString(is_log ? "log" : "run"), missing_data.join(", "));
  missing_line_->setTexts({QString("%1. %2").arg(reason, hidden), hidden});
  missing_line_->setToolTip(names.join(", "));
  fold_link_->setText("<a href=\"#\">Show</a>");
  fold_link_->setAccessibleName("Show the hidden panels");
  fold_bar_->setVisible(hasAnswer() || !is_log);  // else the verdict above the panels says the same
  room_used_ = !projected_ && useRoomOfFolded();
  applySizes();
}

// Shows the folded docks again. Changes that the user made in the meantime stay.
void Workspace::unfold() {
  fold_bar_->hide();
  if (centralWidget()) centralWidget()->hide();
  if (folded_.isEmpty() && !room_used_) return;
  const QScopedValueRollback<bool> ours(arranging_, true);
  if (std::exchange(room_used_, false)) giveRoomBack();
  for (QDockWidget* dock : std::exchange(folded_, {})) dock->show();
  applySizes();
}

// Shows the panels without data, or hides them again.
void Workspace::toggleFolded() {
  if (folded_.isEmpty()) return foldAnew();
  const QString without_data = missing_line_->text().replace(" hidden", " without data");
  unfold();
  missing_line_->setTexts({without_data});
  fold_link_->setText("<a href=\"#\">Hide</a>");
  fold_link_->setAccessibleName("Hide the panels without data");
  fold_bar_->show();
}

// Applies the sizes when first shown, after the layout has placed the docks.
void Workspace::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (!std::exchange(shown_, true))
    QTimer::singleShot(0, this, [this] {
      applySizes();
      tidyTabBars();
    });
}

// Notices when the user drags the line between two docks: the line is no widget, so the workspace gets the events.
bool Workspace::event(QEvent* event) {
  if (event->type() == QEvent::MouseButtonPress) pressed_sizes_ = sizesOfDocks();
  const bool done = QMainWindow::event(event);
  if (event->type() == QEvent::LayoutRequest || event->type() == QEvent::Resize) {
    tidyTabBars();
    keepReadable();
  }
  if (event->type() == QEvent::Resize && shown_ && !arranging_) applySizes();
  if (event->type() == QEvent::MouseButtonRelease && sizesOfDocks() != pressed_sizes_) learnShares();
  return done;
}

// Sets the least height of the workspace: the rows of panels and the widgets above and below them.
void Workspace::keepReadable() {
  const int rows = rowsOfPanels();
  if (rows == 0) return;
  int min_height = rows * withType(least_row_, fontMetrics()) +
                   (menuWidget()->isHidden() ? 0 : menuWidget()->height()) +
                   (fold_bar_->isHidden() ? 0 : fold_bar_->sizeHint().height());
  if (min_height != minimumHeight()) setMinimumHeight(min_height);
}

// Returns the largest number of panels below one another. Docks behind other tabs are placed outside the window.
int Workspace::rowsOfPanels() const {
  QList<QRect> places;
  for (const QDockWidget* dock : docks_)
    if (dock->isVisibleTo(this) && !dock->isFloating() && dock->geometry().bottom() >= 0) places << dock->geometry();
  std::ranges::sort(places, {}, [](const QRect& place) { return place.top(); });
  QList<int> rows(places.size(), 1);
  for (qsizetype i = 0; i < places.size(); ++i)
    for (qsizetype above = 0; above < i; ++above)
      if (places[above].bottom() < places[i].top()) rows[i] = std::max(rows[i], rows[above] + 1);
  return rows.isEmpty() ? 0 : std::ranges::max(rows);
}

void Workspace::bringIntoView(QDockWidget* dock) {
  dock->show();
  dock->raise();
  // A workspace that is shown for the first time has no tabs yet. raise() does nothing for a dock that is the top one.
  QTimer::singleShot(0, dock, [dock] {
    dock->lower();
    dock->raise();
  });
  for (QWidget* at = parentWidget(); at; at = at->parentWidget())
    if (auto* scroll = qobject_cast<QScrollArea*>(at)) return scroll->ensureWidgetVisible(dock);
}

// Hides empty tab bars, which Qt leaves as a line across the panels when docks are tabbed again. Lets titles in a
// narrow bar scroll instead of cutting them.
void Workspace::tidyTabBars() {
  for (QTabBar* bar : findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly)) {
    if (bar->count() == 0) bar->hide();
    // Each call asks for a new layout, whose request comes here again.
    if (bar->elideMode() != Qt::ElideNone) bar->setElideMode(Qt::ElideNone);
    bar->setUsesScrollButtons(true);
  }
}

QDockWidget* Workspace::addDock(QWidget* content, const QString& title, const char* object_name) {
  auto* dock = new PanelDock(title, content, this);
  dock->setObjectName(object_name);
  docks_ << dock;
  // Learns the shares of the room once a dock that the user moved is in its place.
  const auto learn_soon = [this] {
    if (!arranging_ && isVisible()) settle_.start();
  };
  connect(dock, &QDockWidget::topLevelChanged, this, learn_soon);
  connect(dock, &QDockWidget::dockLocationChanged, this, learn_soon);
  // A folded dock that the user shows counts as shown, so that it stays closed if the user closes it again.
  connect(dock->toggleViewAction(), &QAction::toggled, this, [this, dock](bool shown) {
    if (shown) folded_.removeOne(dock);
  });
  return dock;
}

QDockWidget* Workspace::addDock(Panel* panel, const char* object_name) {
  panel->setMinimumSize(kMinPanel);
  for (PlotFrame* plot : panel->findChildren<PlotFrame*>())
    if (plot->minimumHeight() == 0) plot->setMinimumHeight(kMinPlotHeight);
  auto* dock = static_cast<PanelDock*>(addDock(panel, panel->title(), object_name));
  dock->dragBy(panel->header());
  panel->addToMenu(panelActions(dock, panel));
  connect(panel, &Panel::readoutChanged, this, &Workspace::readoutChanged);
  return dock;
}

QDockWidget* Workspace::addFindings(FindingsWatch* watch, const char* object_name) {
  auto* panel = new FindingsPanel(selection_, watch);
  QDockWidget* dock = addDock(panel, object_name);
  connect(panel, &FindingsPanel::countChanged, dock, [dock](int count) {
    dock->setWindowTitle(count ? QString("Findings (%1)").arg(count) : QString("Findings"));
  });
  connect(panel, &FindingsPanel::saveWanted, this, [this](const QString& text) {
    messages_->saveAs("Save findings", "findings.txt", "Text (*.txt)", [&](const QString& path) {
      write_whole_file(path.toStdString(), text.toStdString());
      messages_->saySaved(path);
    });
  });
  return dock;
}

HealthBanner* Workspace::addVerdict(FindingsWatch* watch) {
  auto* banner = new HealthBanner(selection_, watch, this);
  addOverPanels(banner);
  connect(banner, &HealthBanner::findingWanted, this,
          [this](const QString& id) { findChild<FindingsPanel*>() ? openFinding(id) : emit findingWanted(id); });
  return banner;
}

void Workspace::openFinding(const QString& id) {
  for (QDockWidget* dock : docks_)
    if (auto* panel = qobject_cast<FindingsPanel*>(dock->widget())) {
      bringIntoView(dock);
      panel->open(id);
    }
}

QList<Panel*> Workspace::panels() const {
  QList<Panel*> panels;
  for (const QDockWidget* dock : docks_)
    if (auto* panel = qobject_cast<Panel*>(dock->widget())) panels << panel;
  return panels;
}

QDockWidget* Workspace::dock(const QString& object_name) const {
  const auto found = std::ranges::find(docks_, object_name, &QDockWidget::objectName);
  return found == docks_.end() ? nullptr : *found;
}

Panel* Workspace::panel(const QString& object_name) const {
  const QDockWidget* found = dock(object_name);
  return found ? qobject_cast<Panel*>(found->widget()) : nullptr;
}

QVariantMap Workspace::arrangement() const {
  QStringList folded;
  for (const QDockWidget* dock : folded_)
    if (dock->isHidden()) folded << dock->objectName();
  return {{"layout", saveState(kDockLayoutVersion)},
          {"size", size()},
          {"one column", isOneColumn()},
          {"shares", shares_.remembered()},
          {"folded", folded},
          {"room used", room_used_},
          {"projected", projected_}};
}

QVariantMap Workspace::remembered() const {
  QVariantMap state = arrangement();
  for (const QDockWidget* dock : docks_)
    if (const auto* panel = qobject_cast<const Panel*>(dock->widget())) state[dock->objectName()] = panel->saveState();
  return state;
}

bool Workspace::restore(const QVariantMap& state) {
  for (const QDockWidget* dock : docks_) {
    auto* panel = qobject_cast<Panel*>(dock->widget());
    if (panel && state.contains(dock->objectName())) panel->restoreState(state[dock->objectName()].toMap());
  }
  stacked_.clear();
  const QScopedValueRollback<bool> ours(arranging_, true);
  const bool restored = restoreState(state["layout"].toByteArray(), kDockLayoutVersion);
  if (restored) {
    exact_ = {state["layout"].toByteArray(), state["size"].toSize(), shownDocks()};
    const bool was_narrow = state["size"].toSize().width() < kNarrowWindow;
    setOneColumn(state.value("one column", was_narrow).toBool());  // earlier versions did not store it
    settle_.stop();
    shares_.restore(state["shares"].toMap());
    folded_.clear();
    const QStringList folded = state["folded"].toStringList();
    for (QDockWidget* dock : docks_)
      if (folded.contains(dock->objectName())) folded_ << dock;
    room_used_ = state["room used"].toBool();
    projected_ = state["projected"].toBool();
    unfold();
    hideWhatNeedsAChoice();
  }
  foldAnew();
  if (shown_) applySizes();
  return restored;
}

QList<QAction*> Workspace::panelActions(QDockWidget* dock, Panel* panel) {
  QList<QAction*> actions;
  const auto add = [&](const QString& text, auto&& does) {
    auto* action = new QAction(text, dock);
    connect(action, &QAction::triggered, dock, does);
    actions << action;
  };
  add("Save &picture (PNG, SVG)...", [this, panel] { askAndSavePicture(panel); });
  add("Save &table (CSV)...", [this, panel] { askAndSaveTable(panel); });
  add("Cop&y picture and table",
      [this, panel] { QApplication::clipboard()->setMimeData(panelMimeData(panel, *selection_)); });
  add("&Float or dock", [dock] { dock->setFloating(!dock->isFloating()); });
  add("C&lose", [dock] { dock->close(); });
  return actions;
}

void Workspace::askAndSavePicture(Panel* panel) {
  messages_->saveAs("Save picture", suggestedPath(*panel, ".png"), "Pictures (*.png *.svg)", [&](const QString& path) {
    savePanelPicture(panel, *selection_, path);
    messages_->saySaved(path);
  });
}

void Workspace::askAndSaveTable(Panel* panel) {
  messages_->saveAs("Save table", suggestedPath(*panel, ".csv"), "Tables (*.csv)", [&](const QString& path) {
    saveTable(*panel, path);
    messages_->saySaved(path);
  });
}

void Workspace::savePicture(QWidget* widget, const QString& path) {
  write_whole_file(path.toStdString(), pngOf(widget->grab().toImage()).toStdString());
}

void Workspace::saveTable(const Panel& panel, const QString& path) {
  write_whole_file(path.toStdString(), panel.csvFile().toStdString());
}

namespace {

constexpr int kFramesBack = 200;

}  // namespace

QString routersMissing(const History& run, bool (*has)(const RouterFrame&), const char* what) {
  std::shared_ptr<const TelemetryFrame> frame = run.frame_at(INT64_MAX);
  for (int i = 0; frame && i < kFramesBack; ++i, frame = run.frame_at(frame->step - 1))
    if (std::ranges::any_of(frame->routers, has)) return {};
  return what;
}

QString copiesMissing(const History& run) {
  return routersMissing(
      run, [](const RouterFrame& router) { return router.volume.ranks > 0; }, "copies between ranks (\"volume\")");
}

QString loadsMissing(const History& run) {
  return routersMissing(
      run, [](const RouterFrame& router) { return !router.tokens_per_expert.empty(); }, "tokens per expert");
}

QString quantizationMissing(const History& run) {
  return run.quant_frame_at(INT64_MAX) ? QString() : QString("quantization statistics");
}

QString textsMissing(const History& run, TextKind kind) {
  if (!run.text_steps(kind).empty()) return {};
  switch (kind) {
    case TextKind::probe:
      return "a routed probe text";
    case TextKind::sample:
      return "text that the model wrote";
    case TextKind::batch:
      break;
  }
  return "texts with their routing";
}

}  // namespace moescope
