#include "app/look/shortcut_sheet.h"

#include <QAction>
#include <QApplication>
#include <QDialog>
#include <QDialogButtonBox>
#include <QKeySequence>
#include <QLabel>
#include <QVBoxLayout>

#include "widgets/panel/explain_card.h"

namespace moescope {

namespace {

struct Move {
  const char* keys;
  const char* effect;
};

constexpr Move kMoves[] = {
    {"Wheel", "zoom a time axis about the mouse; all time axes follow"},
    {"Drag", "zoom to a box"},
    {"Shift+drag, middle drag", "pan"},
    {"Double click", "fit all steps and follow the newest again"},
    {"Click", "choose: step, layer, expert, tensor"},
    {"Left, Right", "move the cursor in the focused panel"},
    {"+, -, Home", "zoom in, zoom out, fit"},
    {"Tab, Shift+Tab", "next or previous panel or control"},
};

QString shortcutRow(const QString& keys, const QString& effect) {
  return QString("<tr><td style='padding-right:18px'><b>%1</b></td><td>%2</td></tr>").arg(keys, effect);
}

QString effectOf(const QAction& action) {
  return action.whatsThis().isEmpty() ? QString(action.text()).remove('&').remove("...") : action.whatsThis();
}

QString sheet(const QList<QAction*>& actions) {
  QString html = "<h3>Keys</h3><table>";
  for (const QAction* action : actions) {
    const QList<QKeySequence> keys = action->shortcuts();
    if (keys.isEmpty()) continue;
    QStringList names;
    for (const QKeySequence& key : keys) names << key.toString(QKeySequence::NativeText).toHtmlEscaped();
    html += shortcutRow(names.join(", "), effectOf(*action).toHtmlEscaped());
  }
  html += "</table><h3>In the plots</h3><table>";
  for (const Move& move : kMoves) html += shortcutRow(move.keys, move.effect);
  return html + "</table>";
}

void showText(QWidget* parent, const QString& title, const QString& html) {
  auto* dialog = new QDialog(parent);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setObjectName("text_dialog");
  dialog->setWindowTitle(title);
  auto* text = new QLabel(html);
  text->setTextFormat(Qt::RichText);
  text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  text->setWordWrap(title != "Shortcuts");
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
  auto* column = new QVBoxLayout(dialog);
  column->addWidget(text);
  column->addWidget(buttons);
  dialog->show();
}

}  // namespace

void showShortcutSheet(QWidget* parent, const QList<QAction*>& actions) {
  showText(parent, "Shortcuts", sheet(actions));
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
