// Another name of the header of cooperative groups, which has all of it.
#pragma once
#include "../cooperative_groups.h"
