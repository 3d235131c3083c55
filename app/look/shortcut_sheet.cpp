#include "app/look/shortcut_sheet.h"

#include <QAction>
#include <QApplication>
#include <QDialog>
#include <QDialogButtonBox>
#include <QGridLayout>
#include <QKeySequence>
#include <QLabel>
#include <QMainWindow>
#include <QMenu>
#include <QMenuBar>
#include <QSet>
#include <QVBoxLayout>
#include <algorithm>

#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/explain_card.h"

namespace moescope {

namespace {

constexpr int kSheetColumns = 3, kSheetWidth = 1000, kSheetLeastHeight = 300;

ShortcutGroup plotGroup() {
  return {"Plots",
          {{"Wheel", "Zoom the time axis about the mouse"},
           {"Drag", "Zoom to a box"},
           {"Shift+drag, middle drag", "Pan"},
           {"Double click", "Fit all steps and follow"},
           {"Click", "Select a step, layer, expert or tensor"},
           {"Left, Right", "Move the cursor"},
           {"+, -, Home", "Zoom in, zoom out, fit"},
           {"Tab, Shift+Tab", "Next and previous control"}}};
}

QString effectOf(const QAction& action) {
  const QString words = action.whatsThis().isEmpty() ? action.text() : action.whatsThis().section(": ", 0, 0);
  return QString(words).remove('&').remove("...");
}

using ShortcutEntry = QPair<QString, QString>;

// Panels have actions of their own with the keys of a menu, such as Undo: they are listed once.
void take(QAction* action, ShortcutGroup& group, QSet<ShortcutEntry>& listed_entries) {
  QStringList keys;
  for (const QKeySequence& key : action->shortcuts()) keys << key.toString(QKeySequence::NativeText);
  const ShortcutEntry entry(keys.join(", "), effectOf(*action));
  if (keys.isEmpty() || entry.second.isEmpty() || listed_entries.contains(entry)) return;
  group.entries << entry;
  listed_entries << entry;
}

void takeMenu(QMenu* menu, ShortcutGroup& group, QSet<ShortcutEntry>& listed_entries) {
  for (QAction* action : menu->actions())
    action->menu() ? takeMenu(action->menu(), group, listed_entries) : take(action, group, listed_entries);
}

QWidget* groupView(const ShortcutGroup& group) {
  auto* view = new QWidget;
  auto* grid = new QGridLayout(view);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(kSpace12);
  grid->setVerticalSpacing(0);
  auto* head = new QLabel(group.name);
  head->setFont(semibold(head->font()));
  grid->addWidget(head, 0, 0, 1, 2);
  for (int i = 0; i < group.entries.size(); ++i) {
    auto* keys = new QLabel(group.entries[i].first);
    keys->setForegroundRole(QPalette::PlaceholderText);
    auto* effect = new QLabel(group.entries[i].second);
    for (QLabel* label : {keys, effect}) {
      label->setFont(typeFont(Type::secondary));
      label->setWordWrap(true);
      label->setAlignment(Qt::AlignLeft | Qt::AlignTop);
      grid->addWidget(label, i + 1, label == effect);
    }
  }
  grid->setColumnStretch(0, 2);
  grid->setColumnStretch(1, 3);
  return view;
}

// Places each group in the column that is the shortest so far, in pixels: long texts take several lines.
QWidget* sheetOf(const QList<ShortcutGroup>& groups, int width) {
  auto* sheet = new QWidget;
  auto* row = new QHBoxLayout(sheet);
  row->setSpacing(kSpace24);
  QList<QVBoxLayout*> columns;
  QList<int> heights;
  for (int i = 0; i < kSheetColumns; ++i) {
    columns << new QVBoxLayout;
    columns.back()->setSpacing(kSpace8);
    row->addLayout(columns.back(), 1);
    heights << 0;
  }
  for (const ShortcutGroup& group : groups) {
    const auto shortest = std::min_element(heights.begin(), heights.end()) - heights.begin();
    QWidget* view = groupView(group);
    columns[shortest]->addWidget(view);
    heights[shortest] += view->heightForWidth(width / kSheetColumns - kSpace24) + kSpace8;
  }
  for (QVBoxLayout* column : columns) column->addStretch(1);
  return sheet;
}

QDialog* dialogWith(QWidget* parent, const QString& title, QWidget* content) {
  auto* dialog = new QDialog(parent);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setObjectName("text_dialog");
  dialog->setWindowTitle(title);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
  auto* column = new QVBoxLayout(dialog);
  column->addWidget(content, 1);
  column->addWidget(buttons);
  return dialog;
}

void showText(QWidget* parent, const QString& title, const QString& html) {
  auto* text = new QLabel(html);
  text->setTextFormat(Qt::RichText);
  text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  text->setWordWrap(true);
  dialogWith(parent, title, text)->show();
}

}  // namespace

QList<ShortcutGroup> shortcutGroups(QMainWindow* window) {
  QList<ShortcutGroup> groups;
  QSet<ShortcutEntry> listed_entries;
  for (QAction* top : window->menuBar()->actions()) {
    ShortcutGroup group{QString(top->text()).remove('&'), {}};
    if (top->menu()) takeMenu(top->menu(), group, listed_entries);
    groups << group;
  }
  ShortcutGroup other_actions{"Window", {}};
  for (QAction* action : window->findChildren<QAction*>()) take(action, other_actions, listed_entries);
  groups << other_actions << plotGroup();
  groups.removeIf([](const ShortcutGroup& group) { return group.entries.isEmpty(); });
  return groups;
}

// Shows the sheet inside the window; it scrolls if larger type needs more room.
void showShortcutSheet(QMainWindow* window) {
  const QSize room = window->size() - QSize(2 * kSpace12, 2 * kSpace12);
  const int width = std::min(room.width(), withType(kSheetWidth, window->fontMetrics()));
  QScrollArea* scroll = scrollOf(sheetOf(shortcutGroups(window), width));
  QDialog* dialog = dialogWith(window, "Keyboard and mouse", scroll);
  const int wanted_height = scroll->widget()->heightForWidth(width - 4 * kSpace12) + 5 * kSpace24;
  dialog->resize(width, std::min(room.height(), std::max(wanted_height, kSheetLeastHeight)));
  dialog->show();
}

void showExplanation(QWidget* parent, const QString& title, const QString& html) {
  showText(parent, title, cardInPrint(html));
}

void showAbout(QWidget* parent, const QStringList& facts) {
  showText(parent, "About MoEScope",
           QString("<h3>MoEScope %1</h3><p>Trains a small mixture-of-experts language model on this computer and shows "
                   "live what its router, its all-to-all and its number formats do.</p><p>%2</p>"
                   "<p>Apache License 2.0</p>")
               .arg(QApplication::applicationVersion().toHtmlEscaped(), facts.join("<br>")));
}

}  // namespace moescope
