// The name by which the toolkit keeps the header of Tile C++.
#pragma once
#include "../cuda_tile.h"
