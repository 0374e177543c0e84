mod gate; mod world;
