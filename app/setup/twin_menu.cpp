#include "app/setup/twin_menu.h"

#include <QMenu>
#include <QWidget>
#include <cmath>

#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

std::vector<ConfigValue> scaled(const ConfigValue& current) {
  std::vector<ConfigValue> values;
  for (const double factor : {0.1, 0.5, 2.0, 10.0}) {
    ConfigValue value = current;
    if (auto* real = std::get_if<double>(&value)) *real *= factor;
    if (auto* whole = std::get_if<std::int64_t>(&value)) {
      const double exact = *whole * factor;
      *whole = std::llround(exact);
      if (*whole != exact) continue;
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

std::vector<ConfigValue> twinValues(const ConfigField& field, const ConfigValue& current) {
  std::vector<ConfigValue> values;
  if (const auto* on = std::get_if<bool>(&current)) return {!*on};
  if (!std::holds_alternative<std::string>(current)) values = scaled(current);
  for (const std::string& choice : field.choices) values.emplace_back(choice);
  std::erase_if(values,
                [&](const ConfigValue& value) { return value == current || !check_field(field, value).empty(); });
  return values;
}

void fillTwinMenu(QMenu* menu, const ConfigField& field, const TwinOffers& offers) {
  menu->clear();
  menu->addAction(QString("Train beside run A, with another %1:").arg(QString::fromStdString(field.key)))
      ->setEnabled(false);
  const bool possible = offers.possible();
  for (const ConfigValue& value : twinValues(field, offers.present()))
    menu->addAction("  " + valueWords(QString::fromStdString(to_string(value))), menu,
                    [chosen = offers.chosen, value] { chosen(value); })
        ->setEnabled(possible);
  menu->addAction("  another value...", menu, offers.other)->setEnabled(possible);
}

void offerTwins(QWidget* part, const ConfigField& field, TwinOffers offers) {
  part->setContextMenuPolicy(Qt::CustomContextMenu);
  QObject::connect(part, &QWidget::customContextMenuRequested, part,
                   [part, &field, offers = std::move(offers)](QPoint at) {
                     auto* menu = new QMenu(part);
                     menu->setAttribute(Qt::WA_DeleteOnClose);
                     fillTwinMenu(menu, field, offers);
                     menu->popup(part->mapToGlobal(at));
                   });
}

}  // namespace moescope
