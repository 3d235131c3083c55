#include "app/setup/model_presets_dialog.h"

#include <QDialogButtonBox>
#include <QFontDatabase>
#include <QHeaderView>
#include <QLabel>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "app/look/dialog_parts.h"
#include "app/setup/field_editor.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "widgets/look/style.h"

namespace moescope {
namespace {

QString inWords(const std::string& value) {
  if (value.empty()) return QStringLiteral("-");
  if (value == "true") return QStringLiteral("yes");
  return value == "false" ? QStringLiteral("no") : QString::fromStdString(value);
}

}  // namespace

ModelPresetsDialog::ModelPresetsDialog(const QString& action, QWidget* parent)
    : QDialog(parent), action_(action), table_(new QTableWidget), about_(new QPlainTextEdit), take_(new QPushButton) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("model_presets_dialog");
  setWindowTitle("Miniatures of real models");
  auto* words = quietText(
      "Routers and experts of published models at a size that trains here. The table has every setting of model and "
      "router in which these presets differ; a dash: the setting has no effect in that model. Click a column to read "
      "the sources of a preset and what it does not reproduce.");
  table_->setAccessibleName("Settings in which the presets differ");
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setSelectionBehavior(QAbstractItemView::SelectColumns);
  table_->setSelectionMode(QAbstractItemView::SingleSelection);
  table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() +
                                                  6);  // low rows, so that all settings are visible
  about_->setReadOnly(true);
  about_->setAccessibleName("About the chosen preset");
  about_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));  // the text has a table in columns
  about_->setTabChangesFocus(true);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  buttons->addButton(take_, QDialogButtonBox::ActionRole);
  take_->setProperty(kPrimaryProperty, true);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(take_, &QPushButton::clicked, this, [this] {
    emit chosen(current());
    accept();
  });
  auto* column = dialogColumn(this, "Miniatures of real models");
  column->addWidget(words);
  column->addWidget(table_, 3);
  column->addWidget(about_, 2);
  column->addWidget(buttons);
  fill();
  connect(table_, &QTableWidget::currentCellChanged, this, &ModelPresetsDialog::showChosen);
  table_->setCurrentCell(0, 0);
  const int lines = 130 * about_->fontMetrics().horizontalAdvance('0');  // width of the presets' texts
  const int wide = table_->verticalHeader()->sizeHint().width() + table_->horizontalHeader()->length() + 60;
  resize(std::min(std::max(lines, wide), 1240), 740);
}

void ModelPresetsDialog::fill() {
  const std::vector<std::string> names = model_preset_names();
  const std::vector<PresetSetting> settings = model_preset_table();
  table_->setColumnCount(to_int(names.size()));
  table_->setRowCount(to_int(settings.size()));
  for (std::size_t c = 0; c < names.size(); ++c)
    table_->setHorizontalHeaderItem(to_int(c), new QTableWidgetItem(QString::fromStdString(names[c])));
  for (std::size_t r = 0; r < settings.size(); ++r) {
    const int row = to_int(r);
    const QString tip = fieldToolTip(settings[r].setting.field());
    auto* label = new QTableWidgetItem(QString::fromStdString(settings[r].setting.field().label));
    label->setToolTip(tip);
    table_->setVerticalHeaderItem(row, label);
    for (std::size_t c = 0; c < names.size(); ++c) {
      auto* cell = new QTableWidgetItem(inWords(settings[r].values[c]));
      cell->setTextAlignment(Qt::AlignCenter);
      cell->setToolTip(tip);
      table_->setItem(row, to_int(c), cell);
    }
  }
  table_->resizeColumnsToContents();
}

QString ModelPresetsDialog::current() const {
  return table_->horizontalHeaderItem(std::max(0, table_->currentColumn()))->text();
}

void ModelPresetsDialog::showChosen() {
  about_->setPlainText(QString::fromStdString(preset_about(current().toStdString())).trimmed());
  take_->setText(action_.arg(current()));
}

}  // namespace moescope
